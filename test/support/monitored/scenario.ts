import { tableItemLookup } from '../client.js'
import { type TestVarve } from '../varve.js'
import { type ExpectedResponse, type Traffic, type RequestParts } from './expected-traffic.js'
import { modulesDelayMs, upstreamDelayMs, type MonitoredEnvironment } from './monitored-environment.js'

/** Region of the chain that a scenario reads; each scenario has its own. */
export interface ChainRegion {
  /** Number of blocks above the start of the window; the scenario uses some forty more. */
  readonly above: number
  /** First event of the page. */
  readonly event: number
  /** Network of the limited replica's clients. */
  readonly network: number
}

/** Context of a scenario, and its records. */
export interface Scenario {
  readonly environment: MonitoredEnvironment
  readonly traffic: Traffic
  /** Requests to the replica of the other chain. */
  readonly beside: Traffic
  readonly facts: FactCounts
  readonly region: ChainRegion
  /** Lowest version that is read and stays in the window. */
  readonly lowest: bigint
  /** Returns the first version of a block, counted from the lowest version's block. */
  version(nth: number): bigint
}

/** Counts of actions that no response shows. */
export class FactCounts {
  readonly #counts = new Map<string, number>()

  add (what: string, count = 1): void {
    this.#counts.set(what, this.countOf(what) + count)
  }

  countOf (what: string): number {
    return this.#counts.get(what) ?? 0
  }
}

/** A read as it is sent, whatever its response. */
export interface PlannedRead {
  readonly endpoint: ExpectedResponse['endpoint']
  readonly target: string
  readonly wording?: RequestParts
}

export const blockRead = (version: bigint): PlannedRead => ({
  endpoint: 'block_by_version',
  target: `/v1/blocks/by_version/${version}`
})

export const tableItemRead = (version: bigint): PlannedRead => ({
  endpoint: 'table_item',
  target: `/v1/tables/0x1/item?ledger_version=${version}`,
  wording: { headers: { 'content-type': 'application/json' }, body: String(tableItemLookup('u64', '"5"').body) }
})

export const modulesRead = (version: bigint): PlannedRead => ({
  endpoint: 'account_modules',
  target: `/v1/accounts/0x1/modules?ledger_version=${version}`
})

export const latestModulesRead = (account: number): PlannedRead => ({
  endpoint: 'account_modules',
  target: `/v1/accounts/0x${account.toString(16)}/modules`
})

export const eventsRead = (start: number): PlannedRead => ({
  endpoint: 'account_events',
  target: `/v1/accounts/0x1/events/0x1::block::BlockResource/new_block_events?start=${start}&limit=25`
})

/** Sends a read and expects the predicted response. */
export async function sendPlanned (
  { traffic }: Pick<Scenario, 'traffic'>,
  varve: TestVarve,
  { endpoint, target, wording }: PlannedRead,
  outcome: ExpectedResponse['outcome'],
  more: Partial<ExpectedResponse> = {},
  headers: Record<string, string> = {}
): Promise<void> {
  const goesUpstream = outcome === 'miss' || outcome === 'forwarded'
  const leastMs = goesUpstream ? endpoint === 'account_modules' ? modulesDelayMs : upstreamDelayMs : 0
  await traffic.send(varve, target, { endpoint, outcome, status: 200, leastMs, ...more }, {
    ...wording,
    headers: { ...wording?.headers, ...headers }
  })
}

/** Returns the number of entries that a replica has written to Redis. */
export async function redisWritesOf (varve: TestVarve): Promise<number> {
  return await varve.metric('varve_cache_writes_total{tier="redis"}') ?? 0
}

/**
 * Sends reads while the upstreams hold another, which has used up its client's rate: a slow machine must not take so
 * long for the first that the client may send again.
 */
export async function whileHeld (
  { environment: { upstreams: { whole, behind } } }: Scenario,
  endpoint: 'account_modules' | 'block_by_version',
  leading: () => Promise<void>,
  others: ReadonlyArray<() => Promise<void>>
): Promise<void> {
  const holds = [whole, behind].map(({ faults }) => faults.hold(endpoint))
  const pending = leading()
  await Promise.race(holds.map(async hold => {
    await hold.arrived
  }))
  await Promise.all(others.map(async send => {
    await send()
  }))
  for (const hold of holds) hold.release()
  await pending
}
