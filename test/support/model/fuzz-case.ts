import { type Fault, type PrunedEventsMode } from '#sandbox'
import { type ModelRequest } from './request.js'

/** Options of the upstreams and of the varve or two in front of them. */
export interface FuzzSetting {
  readonly upstreams: number
  /** True if upstreams fail, lag, lie and change chains; the steps say how. */
  readonly isTroubled: boolean
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
  readonly hasDisk: boolean
  /** Processes of each varve. */
  readonly workers: number
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

/** Change of one upstream; `recover` ends all its faults, `restore` brings it back with its whole history. */
export type UpstreamChange =
  & { readonly upstream: number }
  & (
    | { readonly happens: 'kill' | 'freeze' | 'stall' | 'restore' | 'recover' }
    | { readonly lag: number }
    | { readonly fault: Fault }
  )

/** Change of the chain or of upstreams; without `upstream` of all. */
export type WorldChange =
  | { readonly grow: number }
  | { readonly prune: number, readonly upstream?: number }
  | { readonly release: 'next', readonly upstream?: number }
  | UpstreamChange
  /** Moves all upstreams to another chain of the same name, with more or fewer blocks. */
  | { readonly reset: number }

/** Read that a purge names, or all of them. */
export type PurgedRead = 'all' | { readonly method: string, readonly url: string, readonly body?: string }

/** One step of a case; `to` is the first or the second varve. */
export type FuzzStep =
  | WorldChange
  /** Concurrent requests, and a change meanwhile. */
  | { readonly requests: readonly ModelRequest[], readonly to?: number, readonly meanwhile?: WorldChange }
  | { readonly purge: PurgedRead, readonly to?: number }
  /** Ends when each varve knows what the upstreams that are up have. */
  | { readonly settle: true }
  | { readonly redis: 'flush' | 'cut' | 'restart' }
  /** Reloads the configuration with other names for all upstreams, which are new ones then. */
  | { readonly reload: true, readonly to?: number }
  /** Stops a varve and starts it again, with a change in between. */
  | { readonly restart: true, readonly to?: number, readonly meanwhile?: WorldChange }
  /** Kills a worker, whose connections break. */
  | { readonly killWorker: true }

/** An exact run, for repetition. */
export interface FuzzCase {
  readonly why?: string
  /** Omitted settings have their defaults. */
  readonly setting: Partial<FuzzSetting>
  readonly steps: readonly FuzzStep[]
}

/** Simplest setting. */
export const defaultSetting: FuzzSetting = {
  upstreams: 1,
  isTroubled: false,
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
  hasDisk: false,
  workers: 1,
  pinsPages: false,
  hasFastPath: true,
  followMode: 'off',
  auditShare: 0.001
}
