import { readdirSync } from 'node:fs'
import { sendRequest } from '../client.js'
import { measureProcess, type ProcessUsage } from './inspector.js'
import { type VarveProcess } from './varve-process.js'

/** What varve holds, and what it says of itself. */
export interface ProcessSnapshot extends ProcessUsage {
  readonly openFiles: number
  readonly series: ReadonlyMap<string, number>
}

/**
 * What is asked of varve and of nodes at this moment, and what is open for that; nothing stands still for it, as it
 * does for a look.
 */
export async function takeQuickSnapshot (
  program: VarveProcess
): Promise<Pick<ProcessSnapshot, 'series' | 'openFiles'>> {
  return { series: await seriesOf(program), openFiles: openFilesOf(program.pid) }
}

/** Looks into varve, garbage collected first. */
export async function takeSnapshot (program: VarveProcess): Promise<ProcessSnapshot> {
  const glanced = await takeQuickSnapshot(program)
  return { ...await measureProcess(program.inspectorUrl), ...glanced }
}

/** Every series of a scrape. */
export async function seriesOf ({ adminUrl }: VarveProcess): Promise<Map<string, number>> {
  const { body } = await sendRequest(adminUrl, '/metrics')
  return new Map(
    body.split('\n').filter(line => line !== '' && !line.startsWith('#')).map(line => {
      const cut = line.lastIndexOf(' ')
      return [line.slice(0, cut), Number(line.slice(cut + 1))]
    })
  )
}

/** The sum over the series of a name, and of some labels. */
export function sumOfSeries (series: ReadonlyMap<string, number>, name: string, ...labels: string[]): number {
  let sum = 0
  for (const [key, value] of series) {
    if ((key === name || key.startsWith(`${name}{`)) && labels.every(label => key.includes(label))) sum += value
  }
  return sum
}

/** What is asked of nodes or waits at this moment. */
export function upstreamRequestsInFlight (series: ReadonlyMap<string, number>): number {
  return sumOfSeries(series, 'varve_upstream_under_way') + sumOfSeries(series, 'varve_upstream_waiting') +
    sumOfSeries(series, 'varve_waiting_for_version')
}

// Only Linux has them so; elsewhere sockets are counted by what Node says alone.
function openFilesOf (pid: number): number {
  try {
    return readdirSync(`/proc/${pid}/fd`).length
  } catch {
    return 0
  }
}
