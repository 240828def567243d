import { type Test } from 'tap'
import { digestOfHash } from '../../src/api/state-key.js'
import { type FollowedHead } from '../../src/follow/ledger-knowledge.js'
import { type TailReading, TailReader } from '../../src/follow/tail-reader.js'
import { type VerifyResult } from '../../src/follow/verify-write-sets.js'
import { type UpstreamPool } from '../../src/upstreams/upstream-pool.js'
import { transactionRecord } from '../../sandbox/transactions.js'
import { type Sandbox, type SandboxOptions } from '#sandbox'
import { contextAt } from './proxy-context.js'
import { startSandboxNode } from './replicas.js'

/** Reader of the tail of a sandbox, with what it reports. */
export interface TestTail {
  readonly sandbox: Sandbox
  readonly reader: TailReader
  readonly pages: Array<'ok' | 'empty' | 'failed'>
  readonly verified: VerifyResult[]
  /** Targets of the requests for transactions and blocks since the last call. */
  requested(): string[]
  /** Head at a version of the chain. */
  headAt(version: bigint): FollowedHead
  /** Describes what a reading has beside the truth; undefined if nothing. */
  untruth(reading: TailReading): string | undefined
}

/** Starts a sandbox and a reader of its tail; pages with a failing version are answered with 500. */
export async function tailAt (
  t: Test,
  options: SandboxOptions = {},
  { verify = 'never', failing = [] }: { verify?: 'never' | 'share' | 'all', failing?: bigint[] } = {}
): Promise<TestTail> {
  const sandbox = await startSandboxNode(t, { blocks: 60, prunedBlocks: 0, ...options })
  const pool = contextAt(t, sandbox.url).context.upstreamPool as UpstreamPool
  const pages: TestTail['pages'] = []
  const verified: VerifyResult[] = []
  const reader = new TailReader({
    fetch: async (request, version) => {
      const response = await pool.fetchAside(request, { version, minVersion: undefined, events: undefined })
      const start = version ?? sandbox.ledger.head.version
      const limit = BigInt(new URL(request.target, sandbox.url).searchParams.get('limit') ?? 1)
      const fails = failing.some(each => each >= start && each < start + limit)
      return response?.status === 200 && fails ? { ...response, status: 500 } : response
    },
    isOurChain: ({ position }) => position.chainId === 4,
    shouldVerify: () => verify !== 'never',
    requiresVerified: () => verify === 'all',
    onVerified: result => verified.push(result),
    onPage: result => pages.push(result)
  })
  const truthAt = (version: bigint): { root: string, touched: bigint[] } => {
    const { ledger } = sandbox
    const { accumulator_root_hash: root, changes } = transactionRecord(ledger, ledger.blockOf(version), version)
    return { root: root.slice(2), touched: changes.map(change => digestOfHash(change.state_key_hash.slice(2))) }
  }
  return {
    sandbox,
    reader,
    pages,
    verified,
    requested: () => {
      const urls = sandbox.requests.latest.map(({ url }) => url)
      sandbox.requests.reset()
      return urls
    },
    headAt: version => ({ version, root: truthAt(version).root }),
    untruth: ({ transactions }) => {
      for (const [index, transaction] of transactions.entries()) {
        const { version, touched, touchesAll } = transaction
        if (index > 0 && version !== (transactions[index - 1]?.version ?? 0n) + 1n) return `a gap before ${version}`
        const truth = truthAt(version)
        if (touchesAll !== undefined) continue
        const hidden = truth.touched.filter(key => !touched.includes(key))
        if (truth.root !== transaction.root || hidden.length > 0) return `another transaction at ${version}`
      }
      return undefined
    }
  }
}
