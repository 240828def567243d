import { type CoinStoreRemake } from './ledger.js'

/** What a sandbox node can be started with. */
export interface SandboxOptions {
  seed?: number
  chainId?: number
  /** Blocks at the start. */
  blocks?: number
  /** Blocks below this height are pruned at the start. */
  prunedBlocks?: number
  /** The node keeps so many blocks, and fewer where it was pruned further. */
  windowBlocks?: number
  /** A block every so many milliseconds; 0: only by hand. */
  blockMs?: number
  /** The version of the first transaction of block 0. */
  startVersion?: bigint
  /** What the position headers' names begin with. */
  family?: string
  /** The `git_hash` of the release, 40 hex digits. */
  release?: string
  /** When the coin store of 0xcafe is destroyed and made anew; left out: never. */
  remaking?: CoinStoreRemake
  /** An address without an account is answered for as an account that never sent anything, as nodes do since 2025. */
  statelessAccounts?: boolean
  jsonOutput?: boolean
  bcsOutput?: boolean
  /** `/v1/info` answers the index object, as some hosted providers do. */
  infoIsIndex?: boolean
  modulesPage?: number
  resourcesPage?: number
  transactionsDefault?: number
  transactionsMax?: number
  /** How long a request waits for a transaction that is not committed yet. */
  waitByHashMs?: number
  eventsDefault?: number
  eventsMax?: number
  blockTransactionsMax?: number
  host?: string
  port?: number
  /** What stands before `/v1`, such as `/key123`. */
  pathPrefix?: string
}

/** The options of a running sandbox node. */
export type Settings =
  & Required<Omit<SandboxOptions, 'release' | 'remaking'>>
  & Pick<SandboxOptions, 'release' | 'remaking'>

/** What a sandbox node is without being told. */
export const defaultSettings: Settings = {
  seed: 1,
  chainId: 4,
  blocks: 1_000,
  prunedBlocks: 100,
  windowBlocks: 20_000,
  blockMs: 250,
  startVersion: 0n,
  family: 'x-aptos-',
  jsonOutput: true,
  bcsOutput: true,
  statelessAccounts: true,
  infoIsIndex: false,
  modulesPage: 9_999,
  resourcesPage: 9_999,
  transactionsDefault: 25,
  transactionsMax: 100,
  waitByHashMs: 1_000,
  eventsDefault: 25,
  eventsMax: 100,
  blockTransactionsMax: 10_000,
  host: '127.0.0.1',
  port: 0,
  pathPrefix: ''
}
