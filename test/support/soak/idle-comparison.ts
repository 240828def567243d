import { type Test } from 'tap'
import { until } from '../until.js'
import {
  takeQuickSnapshot,
  type ProcessSnapshot,
  takeSnapshot,
  seriesOf,
  sumOfSeries,
  upstreamRequestsInFlight
} from './process-snapshot.js'
import { type VarveProcess } from './varve-process.js'

// Idle time after which upstream connections, closed after four seconds, are gone.
const quietMs = 20_000
// Allows for polls and audits in progress, which have a socket, a file and timers each.
const mostMoreSockets = 4
const mostMoreTimers = 12
// Allows for status labels counted for the first time; fewer than all of the closed lists.
const mostMoreSeries = 400
// Allows for Node.js' data on code that runs first under faults. A leak of 100 bytes per response shows after 50,000,
// of 1 kB after 5,000.
const mostMoreMb = 5
const freshSeconds = 1.5
// Entries on the disk take no memory.
const memory = 'tier="memory"'
const mega = 1024 * 1024

/**
 * Measures when no request is in progress and sockets are back to the first level. A reload before empties the
 * parsed-request cache, whose megabytes would hide the rest.
 */
export async function idleSnapshot (
  program: VarveProcess,
  configOf: (round: number) => object,
  openAtStart: number
): Promise<ProcessSnapshot> {
  for (const round of [1, 0]) await program.reload(configOf(round))
  let last = ''
  await until(
    async () => {
      const { series, openFiles } = await takeQuickSnapshot(program)
      last = `${
        upstreamRequestsInFlight(series)
      } under way or waiting, ${openFiles} files open and ${openAtStart} at the start`
      return upstreamRequestsInFlight(series) === 0 && openFiles <= openAtStart + mostMoreSockets
    },
    'nothing is under way, nothing waits, and idle connections are closed',
    quietMs
  ).catch((error: unknown) => {
    throw new Error(`${String(error)}: ${last}`)
  })
  const look = await takeSnapshot(program)
  // Waits: the measurement stalls varve.
  await until(
    async () => sumOfSeries(await seriesOf(program), 'varve_ledger_position_age_seconds') < freshSeconds,
    'varve has polled the upstreams again'
  )
  return look
}

/** Compares the state after the faults with that before. */
export function compareSnapshots (t: Test, before: ProcessSnapshot, after: ProcessSnapshot, requests: number): void {
  const grown = (of: (look: ProcessSnapshot) => number): number => of(after) - of(before)
  t.ok(grown(socketsOf) <= mostMoreSockets, `${socketsOf(before)} sockets before, ${socketsOf(after)} after`)
  t.ok(
    grown(({ sockets }) => sockets) <= mostMoreSockets,
    `${before.sockets} sockets in memory before, ${after.sockets} after`
  )
  t.ok(
    grown(({ openFiles }) => openFiles) <= mostMoreSockets,
    `${before.openFiles} files open before, ${after.openFiles} after`
  )
  t.ok(grown(({ timers }) => timers) <= mostMoreTimers, `${before.timers} timers before, ${after.timers} after`)
  const [seriesBefore, seriesAfter] = [seriesCountOf(before), seriesCountOf(after)]
  t.ok(seriesAfter - seriesBefore <= mostMoreSeries, `${seriesBefore} series before, ${seriesAfter} after`)
  // Subtracts cached entries, whose size is configured.
  const bytes = grown(({ bytes, series }) => bytes - sumOfSeries(series, 'varve_cache_bytes', memory))
  t.ok(
    bytes < mostMoreMb * mega,
    `memory besides the cache has grown by ${Math.round(bytes / 1024)} KB, which is ${
      (bytes / requests).toFixed(1)
    } bytes for each of ${requests} requests`
  )
}

// Histograms are left out: each begins with its first observation, twenty lines at once.
function seriesCountOf ({ series }: ProcessSnapshot): number {
  return [...series.keys()].filter(name => !/_(?:bucket|sum|count)(?:\{|$)/.test(name)).length
}

/** Returns a measurement in words. */
export function describeSnapshot (when: string, look: ProcessSnapshot): string[] {
  const mb = (bytes: number): string => `${(bytes / mega).toFixed(2)} MB`
  const { series } = look
  return [
    `${when}: ${mb(look.bytes)} in use, of them ${mb(sumOfSeries(series, 'varve_cache_bytes', memory))} for ${
      sumOfSeries(series, 'varve_cache_entries', memory)
    } entries; ${mb(look.rssBytes)} resident`,
    ...[...series].filter(([name, value]) =>
      value > 0 && /^varve_(?:upstream_(?:under_way|waiting)|waiting_for_version)/.test(name)
    ).map(([name, value]) => `${when}: ${name} ${value}`),
    `${when}: ${look.sockets} sockets, ${look.timers} timers, ${look.openFiles} open files, ${series.size} series, ${
      upstreamRequestsInFlight(series)
    } under way or waiting; ${Object.entries(look.resources).map(([kind, count]) => `${kind} ${count}`).join(', ')}`
  ]
}

function socketsOf ({ resources }: ProcessSnapshot): number {
  return (resources['TCPSocketWrap'] ?? 0) + (resources['PipeWrap'] ?? 0)
}
