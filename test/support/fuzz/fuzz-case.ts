import { type PrunedEventsMode } from '#sandbox'
import { type ModelRequest } from '../model/request.js'

/** Start options of the upstream and of the varve or two in front of it. */
export interface FuzzSetting {
  readonly startVersion: string
  readonly blocks: number
  readonly prunedBlocks: number
  readonly eventsMax: number
  readonly modulesPage: number
  readonly blockTransactionsMax: number
  readonly prunedEvents: PrunedEventsMode
  readonly blockBcs: 'option' | 'bare'
  /** Micro-cache time of info and gas. */
  readonly microCacheMs: number
  /** True for two varves that share a Redis. */
  readonly isShared: boolean
  /** True if cursors carry the version at which a listing began. */
  readonly pinsPages: boolean
  readonly followMode: 'off' | 'observe' | 'on'
  /** True if hits of known request bytes bypass Node's parser. */
  readonly hasFastPath: boolean
  /** Memory limit; undefined for the default. */
  readonly memoryKb?: number
  /** Share of hits that are audited. */
  readonly auditShare: number
}

/** Change of the ledger: blocks added at its end or pruned at its beginning. */
export type LedgerChange = { readonly grow: number } | { readonly prune: number }

/** Upgrades the upstream to the next release. */
export interface ReleaseUpgrade {
  readonly release: 'next'
}

/** One step of a case. */
export type FuzzStep =
  | LedgerChange
  /** Concurrent requests to the first or second varve, and a change of the upstream meanwhile. */
  | {
    readonly requests: readonly ModelRequest[],
    readonly to?: number,
    readonly meanwhile?: LedgerChange | ReleaseUpgrade
  }
  | ReleaseUpgrade
  | {
    readonly purge: 'all' | { readonly method: string, readonly url: string, readonly body?: string },
    readonly to?: number
  }

/** An exact run, for repetition. */
export interface FuzzCase {
  readonly why?: string
  /** Omitted settings have their defaults. */
  readonly setting: Partial<FuzzSetting>
  readonly steps: readonly FuzzStep[]
}

/** Simplest setting. */
export const defaultSetting: FuzzSetting = {
  startVersion: '0',
  blocks: 300,
  prunedBlocks: 30,
  eventsMax: 100,
  modulesPage: 9999,
  blockTransactionsMax: 10_000,
  prunedEvents: 'gone410',
  blockBcs: 'option',
  microCacheMs: 0,
  isShared: false,
  pinsPages: false,
  hasFastPath: true,
  followMode: 'off',
  auditShare: 0.001
}
