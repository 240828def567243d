import { tableItemLookup } from '../client.js'
import { type TestVarve } from '../varve.js'
import { type ExpectedResponse, type Traffic, type RequestParts } from './expected-traffic.js'
import { modulesDelayMs, upstreamDelayMs, type MonitoredEnvironment } from './monitored-environment.js'

/** Where in the chain a play reads; another play reads elsewhere. */
export interface ChainRegion {
  /** So many blocks above the end of the window, and some forty more. */
  readonly above: number
  /** The first event of its page. */
  readonly event: number
  /** Which addresses the clients of the short replica come from. */
  readonly network: number
}

/** What a play goes by, and where it writes down what it does. */
export interface Scenario {
  readonly environment: MonitoredEnvironment
  readonly traffic: Traffic
  readonly facts: FactCounts
  readonly region: ChainRegion
  /** The lowest version that is asked for and stays in the window. */
  readonly lowest: bigint
  /** The first version of a block, counted from that of the lowest version. */
  version(nth: number): bigint
}

/** How often something was done that no answer tells of. */
export class FactCounts {
  readonly #counts = new Map<string, number>()

  add (what: string, count = 1): void {
    this.#counts.set(what, this.countOf(what) + count)
  }

  countOf (what: string): number {
    return this.#counts.get(what) ?? 0
  }
}

/** A read as it is sent, whatever it will be answered. */
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

/** Sends a line and has it be answered as foreseen. */
export async function sendPlanned (
  { traffic }: Pick<Scenario, 'traffic'>,
  varve: TestVarve,
  { endpoint, target, wording }: PlannedRead,
  outcome: ExpectedResponse['outcome'],
  more: Partial<ExpectedResponse> = {},
  headers: Record<string, string> = {}
): Promise<void> {
  const asksNode = outcome === 'miss' || outcome === 'forwarded'
  const leastMs = asksNode ? endpoint === 'account_modules' ? modulesDelayMs : upstreamDelayMs : 0
  await traffic.send(varve, target, { endpoint, outcome, status: 200, leastMs, ...more }, {
    ...wording,
    headers: { ...wording?.headers, ...headers }
  })
}

/** How many answers a replica has given to Redis. */
export async function redisWritesOf (varve: TestVarve): Promise<number> {
  return await varve.metric('varve_cache_writes_total{tier="redis"}') ?? 0
}
