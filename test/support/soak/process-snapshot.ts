import { once } from 'node:events'
import { readdirSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { type Test } from 'tap'
import { WebSocket } from 'undici'
import { sendRequest } from '../client.js'
import { until } from '../until.js'
import { type VarveProcess } from './varve-process.js'

// Idle time after which upstream connections, closed after four seconds, are gone.
const quietMs = 20_000
// Allows for polls and audits in progress, which have a socket, a file and timers each.
const mostMore = { sockets: 4, openFiles: 4, handles: 4, timers: 12, series: 400 }
// Allows for Node.js' data on code that runs first under faults. A leak of 100 bytes per response shows after 50,000,
// of 1 kB after 5,000.
const mostMoreBytes = 5 * 1024 * 1024

/** Everything of an idle process that could grow. */
export interface ProcessSnapshot {
  /** Bytes in the heap and outside it, without compiled code and cached entries. */
  readonly bytes: number
  /** Live objects, also those that only a leaked list still references. */
  readonly timers: number
  readonly sockets: number
  /** Sockets and pipes that keep the process alive. */
  readonly handles: number
  readonly openFiles: number
  /** Number of series without histograms, which begin with their first observation. */
  readonly series: number
}

/** Measures when no request is in progress and sockets are back to the first level, or to that of a snapshot before. */
export async function takeSnapshot (
  program: VarveProcess,
  openFilesAtStart: number,
  before?: ProcessSnapshot
): Promise<ProcessSnapshot> {
  await until(
    async () => {
      const isQuiet = upstreamRequestsInFlight(await seriesOf(program)) === 0
      return isQuiet && openFilesOf(program) <= openFilesAtStart + mostMore.openFiles
    },
    `nothing is under way, and of the open files ${openFilesAtStart} are left`,
    quietMs
  )
  const [series, openFiles] = [await seriesOf(program), openFilesOf(program)]
  let usage = await measure(program.inspectorUrl)
  // Measures again, because timers hold a socket for a while after it has closed; the comparison reports a leak.
  const mostSockets = before === undefined ? Infinity : before.sockets + mostMore.sockets
  for (let more = 0; usage.sockets > mostSockets && more < 5; more++) {
    await pause(1000)
    usage = await measure(program.inspectorUrl)
  }
  return {
    ...usage,
    bytes: usage.bytes - sumOfSeries(series, 'varve_cache_bytes', 'tier="memory"'),
    openFiles,
    series: [...series.keys()].filter(name => !/_(?:bucket|sum|count)(?:\{|$)/.test(name)).length
  }
}

/** Compares the state after the faults with that before. */
export function compareSnapshots (t: Test, before: ProcessSnapshot, after: ProcessSnapshot, requests: number): void {
  for (const name of ['sockets', 'openFiles', 'handles', 'timers', 'series'] as const) {
    t.ok(after[name] - before[name] <= mostMore[name], `${before[name]} ${name} before, ${after[name]} after`)
  }
  const grown = after.bytes - before.bytes
  const perRequest = `${(grown / requests).toFixed(1)} bytes for each of ${requests} requests`
  t.ok(grown < mostMoreBytes, `memory besides the cache has grown by ${Math.round(grown / 1024)} KB: ${perRequest}`)
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

/**
 * Counts files on Linux only; elsewhere Node.js' own list counts sockets. The disk tier may keep its segments open, but
 * not removed ones.
 */
export function openFilesOf ({ pid }: VarveProcess): number {
  try {
    const files = `/proc/${pid}/fd`
    return readdirSync(files).filter(name => !isSegment(join(files, name))).length
  } catch {
    return 0
  }
}

function isSegment (file: string): boolean {
  try {
    return readlinkSync(file).endsWith('.segment')
  } catch {
    return false
  }
}

const heapProbe = `({
  external: process.memoryUsage().external,
  spaces: process.getBuiltinModule('v8').getHeapSpaceStatistics().map(space => [space.space_name, space.space_used_size]),
  handles: process.getActiveResourcesInfo().filter(kind => /^(?:TCPSocketWrap|PipeWrap)$/.test(kind)).length
})`

interface Remote {
  readonly result: { readonly value?: unknown, readonly objectId?: string }
}

/** Measures a process started with --inspect, after garbage collection. */
async function measure (
  inspectorUrl: string
): Promise<Pick<ProcessSnapshot, 'bytes' | 'timers' | 'sockets' | 'handles'>> {
  const socket = new WebSocket(inspectorUrl)
  await once(socket, 'open')
  let id = 0
  const call = async (method: string, params: object = {}): Promise<unknown> => {
    socket.send(JSON.stringify({ id: ++id, method, params }))
    for (;;) {
      const [{ data }] = await once(socket, 'message') as [{ data: string }]
      const message = JSON.parse(data) as { id?: number, result?: unknown }
      if (message.id === id && message.result !== undefined) return message.result
      if (message.id === id) throw new Error(`${method}: ${data}`)
    }
  }
  const countOf = async (prototype: string): Promise<number> => {
    const objectGroup = 'counted'
    const { result } = await call('Runtime.evaluate', { expression: prototype, objectGroup }) as Remote
    const { objects } = await call('Runtime.queryObjects', {
      prototypeObjectId: result.objectId,
      objectGroup
    }) as { objects: { objectId: string } }
    const count = await call('Runtime.callFunctionOn', {
      objectId: objects.objectId,
      functionDeclaration: 'function () { return this.length }',
      returnByValue: true
    }) as Remote
    await call('Runtime.releaseObjectGroup', { objectGroup })
    return Number(count.result.value)
  }
  // Collects twice: the first collection may release buffers outside the heap.
  for (let collection = 0; collection < 2; collection++) await call('HeapProfiler.collectGarbage')
  const probed = await call('Runtime.evaluate', { expression: heapProbe, returnByValue: true }) as Remote
  const { external, spaces, handles } = probed.result.value as {
    external: number,
    spaces: Array<[name: string, bytes: number]>,
    handles: number
  }
  const usage = {
    // Excludes compiled code, which grows whenever something runs first and cannot be freed.
    bytes: spaces.filter(([name]) => !name.startsWith('code')).reduce((sum, [, bytes]) => sum + bytes, external),
    timers: await countOf('Object.getPrototypeOf(setTimeout(() => {}, 0))'),
    sockets: await countOf('process.getBuiltinModule("net").Socket.prototype'),
    handles
  }
  socket.close()
  return usage
}
