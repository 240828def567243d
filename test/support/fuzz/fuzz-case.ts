import { type PrunedEventsMode } from '#sandbox'
import { type RawRequest } from './raw-request.js'

/** What a node, and the varve or two in front of it, are started as. */
export interface FuzzSetting {
  readonly startVersion: string
  readonly blocks: number
  readonly prunedBlocks: number
  readonly eventsMax: number
  readonly modulesPage: number
  readonly blockTransactionsMax: number
  readonly prunedEvents: PrunedEventsMode
  readonly blockBcs: 'option' | 'bare'
  /** For how long varve holds info and gas. */
  readonly heldMs: number
  /** Two varves, which share a Redis. */
  readonly isShared: boolean
  /** Whether cursors carry the version that a listing began at. */
  readonly pinsPages: boolean
  readonly isObserving: boolean
  /** Undefined: as much memory as there is by default. */
  readonly memoryKb?: number
  /** Of the hits, how many are read again and compared. */
  readonly auditShare: number
}

/** What becomes of the ledger: so many blocks more, or so many fewer at its beginning. */
export type LedgerChange = { readonly grow: number } | { readonly prune: number }

/** The node is upgraded to the next release. */
export interface ReleaseUpgrade {
  readonly release: 'next'
}

/** One thing that happens. */
export type FuzzStep =
  | LedgerChange
  /**
   * Requests at the same time, to the first varve or to the second, and what becomes of the node while they are under
   * way.
   */
  | { readonly ask: readonly RawRequest[], readonly to?: number, readonly meanwhile?: LedgerChange | ReleaseUpgrade }
  | ReleaseUpgrade
  | {
    readonly purge: 'all' | { readonly method: string, readonly url: string, readonly body?: string },
    readonly to?: number
  }

/** A run to the letter, to be taken again. */
export interface FuzzCase {
  readonly why?: string
  /** What is left out is plain. */
  readonly setting: Partial<FuzzSetting>
  readonly steps: readonly FuzzStep[]
}

/** The plainest. */
export const defaultSetting: FuzzSetting = {
  startVersion: '0',
  blocks: 300,
  prunedBlocks: 30,
  eventsMax: 100,
  modulesPage: 9999,
  blockTransactionsMax: 10_000,
  prunedEvents: 'gone410',
  blockBcs: 'option',
  heldMs: 0,
  isShared: false,
  pinsPages: false,
  isObserving: false,
  auditShare: 0.001
}
