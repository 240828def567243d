import { readdirSync } from 'node:fs'
import { sendRequest } from '../client.js'
import { measureProcess, type ProcessUsage } from './inspector.js'
import { type VarveProcess } from './varve-process.js'

/** Usage and metrics of varve. */
export interface ProcessSnapshot extends ProcessUsage {
  readonly openFiles: number
  readonly series: ReadonlyMap<string, number>
}

/** Returns current requests and open sockets without the stall of a full measurement. */
export async function takeQuickSnapshot (
  program: VarveProcess
): Promise<Pick<ProcessSnapshot, 'series' | 'openFiles'>> {
  return { series: await seriesOf(program), openFiles: openFilesOf(program.pid) }
}

/** Measures varve after garbage collection. */
export async function takeSnapshot (program: VarveProcess): Promise<ProcessSnapshot> {
  const glanced = await takeQuickSnapshot(program)
  return { ...await measureProcess(program.inspectorUrl), ...glanced }
}

/** Returns every series of a scrape. */
export async function seriesOf ({ adminUrl }: VarveProcess): Promise<Map<string, number>> {
  const { body } = await sendRequest(adminUrl, '/metrics')
  return new Map(
    body.split('\n').filter(line => line !== '' && !line.startsWith('#')).map(line => {
      const cut = line.lastIndexOf(' ')
      return [line.slice(0, cut), Number(line.slice(cut + 1))]
    })
  )
}

/** Returns the sum over the series of a name with some labels. */
export function sumOfSeries (series: ReadonlyMap<string, number>, name: string, ...labels: string[]): number {
  let sum = 0
  for (const [key, value] of series) {
    if ((key === name || key.startsWith(`${name}{`)) && labels.every(label => key.includes(label))) sum += value
  }
  return sum
}

/** Returns the number of upstream requests in progress or waiting. */
export function upstreamRequestsInFlight (series: ReadonlyMap<string, number>): number {
  return sumOfSeries(series, 'varve_upstream_in_flight') + sumOfSeries(series, 'varve_upstream_waiting') +
    sumOfSeries(series, 'varve_waiting_for_version')
}

// Counts files on Linux only; elsewhere Node.js' own list counts sockets.
function openFilesOf (pid: number): number {
  try {
    return readdirSync(`/proc/${pid}/fd`).length
  } catch {
    return 0
  }
}
