import { type PrunedEvents } from '../../../src/sandbox/sandbox.js'
import { type Sent } from './sent.js'

/** What a node and a varve in front of it are started as. */
export interface Setting {
  readonly startVersion: string
  readonly blocks: number
  readonly prunedBlocks: number
  readonly eventsMax: number
  readonly modulesPage: number
  readonly blockTransactionsMax: number
  readonly prunedEvents: PrunedEvents
  readonly blockBcs: 'option' | 'bare'
  /** For how long varve holds info and gas. */
  readonly heldMs: number
}

/** What becomes of the ledger: so many blocks more, or so many fewer at its beginning. */
export type Change = { readonly grow: number } | { readonly prune: number }

/** One thing that happens. */
export type Step =
  | Change
  /** Requests at the same time, and what becomes of the ledger while they are under way. */
  | { readonly ask: readonly Sent[], readonly meanwhile?: Change }
  /** The node is upgraded to the next release. */
  | { readonly release: 'next' }
  | { readonly purge: 'all' | { readonly method: string, readonly url: string, readonly body?: string } }

/** A run to the letter, to be taken again. */
export interface Case {
  readonly why?: string
  readonly setting: Setting
  readonly steps: readonly Step[]
}

/** The plainest. */
export const plainSetting: Setting = {
  startVersion: '0', blocks: 300, prunedBlocks: 30, eventsMax: 100, modulesPage: 9999, blockTransactionsMax: 10_000, prunedEvents: 'gone410', blockBcs: 'option', heldMs: 0
}
