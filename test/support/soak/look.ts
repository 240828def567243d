import { readdirSync } from 'node:fs'
import { ask } from '../client.js'
import { heldBy, type Held } from './inspector.js'
import { type Program } from './program.js'

/** What varve holds, and what it says of itself. */
export interface Look extends Held {
  readonly openFiles: number
  readonly series: ReadonlyMap<string, number>
}

/**
 * What is asked of varve and of nodes at this moment, and what is open for that; nothing stands still for it, as it
 * does for a look.
 */
export async function glance (program: Program): Promise<Pick<Look, 'series' | 'openFiles'>> {
  return { series: await seriesOf(program), openFiles: openFilesOf(program.pid) }
}

/** Looks into varve, garbage collected first. */
export async function lookInto (program: Program): Promise<Look> {
  const glanced = await glance(program)
  return { ...await heldBy(program.inspectorUrl), ...glanced }
}

/** Every series of a scrape. */
export async function seriesOf ({ adminUrl }: Program): Promise<Map<string, number>> {
  const { body } = await ask(adminUrl, '/metrics')
  return new Map(
    body.split('\n').filter(line => line !== '' && !line.startsWith('#')).map(line => {
      const cut = line.lastIndexOf(' ')
      return [line.slice(0, cut), Number(line.slice(cut + 1))]
    })
  )
}

/** The sum over the series of a name, and of some labels. */
export function total (series: ReadonlyMap<string, number>, name: string, ...labels: string[]): number {
  let sum = 0
  for (const [key, value] of series) {
    if ((key === name || key.startsWith(`${name}{`)) && labels.every(label => key.includes(label))) sum += value
  }
  return sum
}

/** What is asked of nodes or waits at this moment. */
export function underWay (series: ReadonlyMap<string, number>): number {
  return total(series, 'varve_upstream_under_way') + total(series, 'varve_upstream_waiting') +
    total(series, 'varve_waiting_for_version')
}

// Only Linux has them so; elsewhere sockets are counted by what Node says alone.
function openFilesOf (pid: number): number {
  try {
    return readdirSync(`/proc/${pid}/fd`).length
  } catch {
    return 0
  }
}
