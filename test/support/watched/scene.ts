import { item } from '../client.js'
import { type TestVarve } from '../varve.js'
import { type Foreseen, type Traffic, type Wording } from './sent.js'
import { modulesMs, nodeMs, type Stage } from './stage.js'

/** Where in the chain a play reads; another play reads elsewhere. */
export interface Place {
  /** So many blocks above the end of the window, and some forty more. */
  readonly above: number
  /** The first event of its page. */
  readonly event: number
  /** Which addresses the clients of the short replica come from. */
  readonly network: number
}

/** What a play goes by, and where it writes down what it does. */
export interface Scene {
  readonly stage: Stage
  readonly traffic: Traffic
  readonly facts: Facts
  readonly place: Place
  /** The lowest version that is asked for and stays in the window. */
  readonly lowest: bigint
  /** The first version of a block, counted from that of the lowest version. */
  version(nth: number): bigint
}

/** How often something was done that no answer tells of. */
export class Facts {
  readonly #counts = new Map<string, number>()

  add (what: string, count = 1): void {
    this.#counts.set(what, this.of(what) + count)
  }

  of (what: string): number {
    return this.#counts.get(what) ?? 0
  }
}

/** A read as it is sent, whatever it will be answered. */
export interface Line {
  readonly endpoint: Foreseen['endpoint']
  readonly target: string
  readonly wording?: Wording
}

export const blockAt = (version: bigint): Line => ({
  endpoint: 'block_by_version',
  target: `/v1/blocks/by_version/${version}`
})

export const itemAt = (version: bigint): Line => ({
  endpoint: 'table_item',
  target: `/v1/tables/0x1/item?ledger_version=${version}`,
  wording: { headers: { 'content-type': 'application/json' }, body: String(item('u64', '"5"').body) }
})

export const modulesAt = (version: bigint): Line => ({
  endpoint: 'account_modules',
  target: `/v1/accounts/0x1/modules?ledger_version=${version}`
})

export const latestModules = (account: number): Line => ({
  endpoint: 'account_modules',
  target: `/v1/accounts/0x${account.toString(16)}/modules`
})

export const eventsFrom = (start: number): Line => ({
  endpoint: 'account_events',
  target: `/v1/accounts/0x1/events/0x1::block::BlockResource/new_block_events?start=${start}&limit=25`
})

/** Sends a line and has it be answered as foreseen. */
export async function sends (
  { traffic }: Pick<Scene, 'traffic'>,
  varve: TestVarve,
  { endpoint, target, wording }: Line,
  outcome: Foreseen['outcome'],
  more: Partial<Foreseen> = {},
  headers: Record<string, string> = {}
): Promise<void> {
  const asksNode = outcome === 'miss' || outcome === 'forwarded'
  const leastMs = asksNode ? endpoint === 'account_modules' ? modulesMs : nodeMs : 0
  await traffic.send(varve, target, { endpoint, outcome, status: 200, leastMs, ...more }, {
    ...wording,
    headers: { ...wording?.headers, ...headers }
  })
}

/** How many answers a replica has given to Redis. */
export async function shared (varve: TestVarve): Promise<number> {
  return await varve.metric('varve_cache_writes_total{tier="redis"}') ?? 0
}
