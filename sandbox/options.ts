/** Options that a sandbox node is started with. */
export interface SandboxOptions {
  seed?: number
  chainId?: number
  /** Number of blocks at the start. */
  blocks?: number
  /** Blocks below this height are pruned at the start. */
  prunedBlocks?: number
  /** Number of newest blocks that the node retains; an explicit prune leaves fewer. */
  windowBlocks?: number
  /** Milliseconds between two blocks; with 0, blocks are added only by `grow`. */
  blockMs?: number
  /** Mean number of user transactions in a block; default: few, with some very large blocks. */
  blockTransactions?: number
  /** The version of the first transaction of block 0. */
  startVersion?: bigint
  /** Prefix of the names of the position headers. */
  family?: string
  /** The `git_hash` of the release, 40 hex digits. */
  release?: string
  /**
   * Builds each transaction to hash it for the accumulator, so that its roots are those of a real chain; default: the
   * roots are drawn, which costs far less.
   */
  realLeaves?: boolean
  /** Treats an address without an account as one that has never sent a transaction, as nodes do since 2025. */
  statelessAccounts?: boolean
  jsonOutput?: boolean
  bcsOutput?: boolean
  /** Makes `/v1/info` return the index object, as some hosted providers do. */
  infoIsIndex?: boolean
  modulesPage?: number
  resourcesPage?: number
  transactionsDefault?: number
  transactionsMax?: number
  /** Milliseconds that `wait_by_hash` waits at most for a pending transaction. */
  waitByHashMs?: number
  eventsDefault?: number
  eventsMax?: number
  blockTransactionsMax?: number
  host?: string
  port?: number
  /** Path before `/v1`, such as `/key123`. */
  pathPrefix?: string
}

/** Options of a running sandbox node. */
export type Settings =
  & Required<Omit<SandboxOptions, 'blockTransactions' | 'release'>>
  & Pick<SandboxOptions, 'blockTransactions' | 'release'>

/** Default options of a sandbox node. */
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
  realLeaves: false,
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
