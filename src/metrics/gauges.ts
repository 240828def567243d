import { Gauge, type Registry } from 'prom-client'
import { type Memory } from '../cache/memory.js'
import { type Arrivals } from '../ledger/arrivals.js'
import { type Asked } from '../ledger/asked.js'
import { type Tracker } from '../ledger/tracker.js'
import { type Member } from '../nodes/member.js'
import { nodeStates, stateOf } from '../nodes/node-state.js'

/** What gauges read at the moment of a scrape. */
export interface Observed {
  readonly tracker: Tracker
  readonly arrivals: Pick<Arrivals, 'waiting'>
  readonly asked: Asked
  readonly memory: Memory
  readonly fleet: { readonly members: readonly Member[] }
  /** Whether Redis answers; undefined where none is configured. */
  readonly redis: { readonly isUp: boolean } | undefined
  /** The release of this program. */
  readonly version: string
  /** Of a public listener over TLS. */
  readonly certificate?: { readonly notAfterSeconds: number } | undefined
}

/** What gauges read of clients' connections. */
export interface ObservedClients {
  readonly open: number
}

/** What one number is made of those of several processes: of what each has for itself the sum, else what an operator should know of. */
type Across = 'sum' | 'max' | 'min'

type Labelled = [labels: Record<string, string>, value: number]

/** Registers what is measured when it is scraped. */
export function addGauges (registry: Registry, { tracker, arrivals, asked, memory, fleet, redis, version, certificate }: Observed): void {
  const shown = (read: (position: NonNullable<Tracker['position']>) => bigint) => (): Labelled[] => [[{}, tracker.position === undefined ? NaN : Number(read(tracker.position))]]
  const each = (read: (member: Member) => number) => (): Labelled[] => fleet.members.map(member => [{ upstream: member.node.name }, read(member)])
  const tier = (read: () => number) => (): Labelled[] => [[{ tier: 'memory' }, read()]]
  add(registry, 'varve_ledger_version', 'The ledger version shown to clients.', 'max', [], shown(({ head }) => head.version))
  add(registry, 'varve_ledger_oldest_version', 'The oldest version that a node still has.', 'min', [], shown(({ oldest }) => oldest.version))
  add(registry, 'varve_ledger_block_height', 'The block height shown to clients.', 'max', [], shown(({ head }) => head.blockHeight))
  add(registry, 'varve_ledger_oldest_block_height', 'The oldest block that a node still has.', 'min', [], shown(({ oldest }) => oldest.blockHeight))
  add(registry, 'varve_ledger_position_age_seconds', 'Time since an answer last confirmed the position.', 'max', [], () => [[{}, tracker.ageMs / 1000]])
  add(registry, 'varve_oldest_asked_version', 'The lowest version within the window that clients asked for in about the last five minutes; the head where that is none.', 'min', [],
    () => [[{}, tracker.position === undefined ? NaN : Number(asked.within(tracker.position))]])
  add(registry, 'varve_waiting_for_version', 'Reads that wait for the fleet to reach a version.', 'sum', [], () => [[{}, arrivals.waiting]])
  add(registry, 'varve_upstream_up', 'Whether the node answers and is asked.', 'min', ['upstream'], each(({ isUp }) => Number(isUp)))
  add(registry, 'varve_upstream_state', 'How the node is: 1 for the state that it is in.', 'max', ['upstream', 'state'], () => fleet.members.flatMap(member =>
    nodeStates.map((state): Labelled => [{ upstream: member.node.name, state }, Number(stateOf(member).name === state)])))
  add(registry, 'varve_upstream_version', 'The ledger version that the node has got to.', 'max', ['upstream'], each(({ window }) => Number(window?.head ?? NaN)))
  add(registry, 'varve_upstream_lag_versions', 'How far the node is behind the position shown.', 'max', ['upstream'],
    each(({ window }) => window === undefined ? NaN : Math.max(0, Number((tracker.position?.head.version ?? 0n) - window.head))))
  add(registry, 'varve_upstream_oldest_version', 'The oldest version that the node has.', 'max', ['upstream'], each(({ window }) => Number(window?.oldest ?? NaN)))
  add(registry, 'varve_upstream_under_way', 'Requests that are under way to the node.', 'sum', ['upstream'], each(({ node }) => node.budget.underWay))
  add(registry, 'varve_upstream_max_concurrent', 'Requests that may be under way to the node.', 'sum', ['upstream'], each(({ node }) => node.budget.maxConcurrent))
  add(registry, 'varve_upstream_waiting', 'Requests that wait for their turn at the node.', 'sum', ['upstream'], each(({ node }) => node.budget.waiting))
  add(registry, 'varve_redis_up', 'Whether Redis answers; 0 where none is configured.', 'min', [], () => [[{}, Number(redis?.isUp ?? false)]])
  if (certificate !== undefined) add(registry, 'varve_tls_certificate_not_after_seconds', 'When the certificate of the public listener ends, in Unix time.', 'min', [], () => [[{}, certificate.notAfterSeconds]])
  add(registry, 'varve_workers', 'Processes that answer reads.', 'sum', [], () => [[{}, 1]])
  add(registry, 'varve_cache_entries', 'Entries kept.', 'sum', ['tier'], tier(() => memory.entries))
  add(registry, 'varve_cache_bytes', 'What the entries cost, keys and overhead included.', 'sum', ['tier'], tier(() => memory.bytes))
  add(registry, 'varve_cache_max_bytes', 'What they may cost.', 'sum', ['tier'], tier(() => memory.maxBytes))
  add(registry, 'varve_build_info', 'The release of this varve, as a label; always 1.', 'max', ['version'], () => [[{ version }, 1]])
}

/** Registers what is measured of clients' connections. */
export function addGaugesOf (registry: Registry, clients: ObservedClients): void {
  add(registry, 'varve_connections', 'Connections of clients that are open.', 'sum', [], () => [[{}, clients.open]])
}

function add (registry: Registry, name: string, help: string, across: Across, labelNames: string[], read: () => Labelled[]): void {
  const gauge: Gauge = new Gauge({
    name,
    help,
    labelNames,
    aggregator: across,
    registers: [registry],
    collect: () => {
      // A node may have left the configuration.
      gauge.reset()
      for (const [labels, value] of read()) gauge.set(labels, value)
    }
  })
}
