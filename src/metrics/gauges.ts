import { type Registry } from 'prom-client'
import { type Memory } from '../cache/memory.js'
import { type Arrivals } from '../chain/arrivals.js'
import { type Asked } from '../chain/asked.js'
import { type Tracker } from '../chain/tracker.js'
import { type Member } from '../upstreams/member.js'
import { nodeStates, stateOf } from '../upstreams/node-state.js'
import { type MetricName } from './list.js'
import { addGauge, type Labelled } from './made.js'

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
  /** Whether the data is made up. */
  readonly isSandbox: boolean
  /** Of a public listener over TLS. */
  readonly certificate?: { readonly notAfterSeconds: number } | undefined
}

/** What gauges read of clients' connections. */
export interface ObservedClients {
  readonly open: number
}

/** Registers what is measured when it is scraped. */
export function addGauges (
  registry: Registry,
  { tracker, arrivals, asked, memory, fleet, redis, version, isSandbox, certificate }: Observed
): void {
  const add = (name: MetricName, read: () => readonly Labelled[]): void => {
    addGauge(registry, name, read)
  }
  const shown = (read: (position: NonNullable<Tracker['position']>) => bigint) => (): Labelled[] => [[
    {},
    tracker.position === undefined ? NaN : Number(read(tracker.position))
  ]]
  const each = (read: (member: Member) => number) => (): Labelled[] =>
    fleet.members.map(member => [{ upstream: member.node.name }, read(member)])
  const tier = (read: () => number) => (): Labelled[] => [[{ tier: 'memory' }, read()]]
  add('varve_ledger_version', shown(({ head }) => head.version))
  add('varve_ledger_oldest_version', shown(({ oldest }) => oldest.version))
  add('varve_ledger_block_height', shown(({ head }) => head.blockHeight))
  add('varve_ledger_oldest_block_height', shown(({ oldest }) => oldest.blockHeight))
  add('varve_ledger_position_age_seconds', () => [[{}, tracker.ageMs / 1000]])
  add(
    'varve_oldest_asked_version',
    () => [[{}, tracker.position === undefined ? NaN : Number(asked.within(tracker.position))]]
  )
  add('varve_waiting_for_version', () => [[{}, arrivals.waiting]])
  add('varve_upstream_up', each(({ isUp }) => Number(isUp)))
  add('varve_upstream_state', () =>
    fleet.members.flatMap(member => {
      const { name } = stateOf(member)
      return nodeStates.map((state): Labelled => [{ upstream: member.node.name, state }, Number(state === name)])
    }))
  add('varve_upstream_version', each(({ window }) => Number(window?.head ?? NaN)))
  add(
    'varve_upstream_lag_versions',
    each(({ window }) =>
      window === undefined ? NaN : Math.max(0, Number((tracker.position?.head.version ?? 0n) - window.head))
    )
  )
  add('varve_upstream_oldest_version', each(({ window }) => Number(window?.oldest ?? NaN)))
  add('varve_upstream_under_way', each(({ node }) => node.budget.underWay))
  add('varve_upstream_max_concurrent', each(({ node }) => node.budget.maxConcurrent))
  add('varve_upstream_waiting', each(({ node }) => node.budget.waiting))
  add('varve_redis_configured', () => [[{}, Number(redis !== undefined)]])
  add('varve_redis_up', () => [[{}, Number(redis?.isUp ?? false)]])
  if (certificate !== undefined) {
    add('varve_tls_certificate_not_after_seconds', () => [[{}, certificate.notAfterSeconds]])
  }
  add('varve_sandbox', () => [[{}, Number(isSandbox)]])
  add('varve_workers', () => [[{}, 1]])
  add('varve_cache_entries', tier(() => memory.entries))
  add('varve_cache_bytes', tier(() => memory.bytes))
  add('varve_cache_max_bytes', tier(() => memory.maxBytes))
  add('varve_build_info', () => [[{ version }, 1]])
}

/** Registers what is measured of clients' connections. */
export function addGaugesOf (registry: Registry, clients: ObservedClients): void {
  addGauge(registry, 'varve_connections', () => [[{}, clients.open]])
}
