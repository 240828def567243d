import { mock } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { type Test } from 'tap'
import { digestOfHash } from '../../src/api/state-key.js'
import { type FollowedHead, type KnownTransaction, LedgerKnowledge } from '../../src/follow/ledger-knowledge.js'
import { type TailReading, TailReader } from '../../src/follow/tail-reader.js'
import { type VerifyResult } from '../../src/follow/verify-write-sets.js'
import { type UpstreamPool } from '../../src/upstreams/upstream-pool.js'
import { transactionRecord } from '../../sandbox/transactions.js'
import { Follower, type FollowState } from '../../src/follow/follower.js'
import { TailLoop } from '../../src/follow/tail-loop.js'
import { type TransactionDigest } from '../../src/follow/transaction-digest.js'
import { type ResponsePosition } from '../../src/api/position.js'
import { sequenceBytes } from '../../sandbox/bcs.js'
import { type Ledger } from '../../sandbox/ledger.js'
import { pageItems, type TailFault } from '../../sandbox/transaction-page-fault.js'
import { type Sandbox, type SandboxOptions } from '#sandbox'
import { contextAt } from './proxy-context.js'
import { startSandboxNode } from './replicas.js'
import { sendRequest } from './client.js'
import { type TestVarve } from './varve.js'

/** Reader of the tail of a sandbox, with what it reports. */
export interface TestTail {
  readonly sandbox: Sandbox
  readonly reader: TailReader
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
    onBytes: () => {}
  })
  const truthAt = (version: bigint): { root: string, touched: bigint[] } => {
    const { ledger } = sandbox
    const { accumulator_root_hash: root, changes } = transactionRecord(ledger, ledger.blockOf(version), version)
    return { root: root.slice(2), touched: changes.map(change => digestOfHash(change.state_key_hash.slice(2))) }
  }
  return {
    sandbox,
    reader,
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

/** A follower and its loop on a clock that the test moves, in front of a chain that the test grows. */
export interface DrivenTail {
  readonly follower: Follower
  readonly loop: TailLoop
  /** Times at which readings began, in milliseconds since the start. */
  readonly readings: number[]
  readonly states: Array<[state: FollowState, reason: string | undefined]>
  readonly served: Array<bigint | undefined>
  readonly touchedAll: string[]
  readonly mismatches: Array<string | undefined>
  readonly now: () => number
  /** Newest version of the chain. */
  head: number
  /** Time that a reading takes. */
  latencyMs: number
  /** Lowest version that a head may serve. */
  servedVersion: bigint | undefined
  /** Result of each reading; undefined reads the chain. */
  respond: (head: FollowedHead | undefined) => TailReading | Error | undefined
  /** Transactions of the chain. */
  transaction: (version: number) => KnownTransaction
  /** Moves the clock, with an action at each step. */
  pass(ms: number, onStep?: () => void): Promise<void>
}

/** Creates a tail on a clock of its own. */
export function drivenTail (t: Test, { maxAgeMs = 250, isServing = true, stepMs = 5 } = {}): DrivenTail {
  // A test may drive one tail after another.
  mock.timers.reset()
  mock.timers.enable({ apis: ['setTimeout'] })
  let now = 1000
  const states: DrivenTail['states'] = []
  const served: DrivenTail['served'] = []
  const touchedAll: string[] = []
  const mismatches: DrivenTail['mismatches'] = []
  const readings: number[] = []
  const follower = new Follower({
    now: () => now,
    maxAgeMs,
    isServing,
    servedVersion: () => tail.servedVersion,
    onServedHead: stamped => served.push(stamped?.position.head.version),
    onState: (state, reason) => states.push([state, reason])
  }, new LedgerKnowledge(1024))
  const read = async (head: FollowedHead | undefined): Promise<TailReading> => {
    readings.push(now)
    const response = tail.respond(head)
    const end = tail.head
    await new Promise(resolve => {
      setTimeout(resolve, tail.latencyMs)
    })
    if (response instanceof Error) throw response
    if (response !== undefined) return response
    const from = head === undefined ? end : Number(head.version) + 1
    const transactions = Array.from(
      { length: Math.max(0, end - from + 1) },
      (_, index): TransactionDigest => ({ ...tail.transaction(from + index), hashes: undefined })
    )
    return { result: transactions.length === 0 ? 'empty' : 'ok', transactions, stamped: stampedAt(end) }
  }
  const loop = new TailLoop({
    reader: { readHead: async () => await read(undefined), readAfter: read },
    follower,
    now: () => now,
    maxAgeMs,
    metrics: { read: () => {}, touchedAll: reason => touchedAll.push(reason) },
    onMismatch: async ({ reason }) => {
      mismatches.push(reason)
    }
  })
  follower.setDemandSink(loop)
  const tail: DrivenTail = {
    follower,
    loop,
    readings,
    states,
    served,
    touchedAll,
    mismatches,
    now: () => now,
    head: 100,
    latencyMs: 5,
    servedVersion: undefined,
    respond: () => undefined,
    transaction: version => transactionAt(version, [16n]),
    pass: async (ms, onStep = () => {}) => {
      for (const end = now + ms; now < end;) {
        now += stepMs
        mock.timers.tick(stepMs)
        onStep()
        await turn()
        await turn()
      }
    }
  }
  t.teardown(() => {
    loop.close()
    mock.timers.reset()
  })
  return tail
}

/** Result of a reading that failed. */
export function failure (isUnsupported = false): TailReading {
  return { result: 'failed', transactions: [], stamped: undefined, reason: 'no upstream responds', isUnsupported }
}

/** Returns the stamped position of a version, whose time rises with it. */
export function stampedAt (version: number | bigint, chainId = 4): ResponsePosition {
  const head = BigInt(version)
  return {
    family: 'x-aptos-',
    position: {
      chainId,
      head: { version: head, timestampUsec: 1_000_000n + head * 10n, epoch: 1n, blockHeight: head },
      oldest: { version: 0n, blockHeight: 0n }
    }
  }
}

/** Returns a transaction that touches some keys. */
export function transactionAt (
  version: number | bigint,
  touched: readonly bigint[] = [],
  touchesAll?: KnownTransaction['touchesAll']
): KnownTransaction {
  return { version: BigInt(version), root: `root ${version}`, touched, touchesAll }
}

/** Returns the transactions of versions as the sandbox lists them, with the fault of a page. */
export function pageInJson (ledger: Ledger, versions: readonly bigint[], fault?: TailFault): Buffer {
  return Buffer.from(`[${pageItems(ledger, versions, 'json', fault).join(',')}]`)
}

/** Returns the same in BCS. */
export function pageInBcs (ledger: Ledger, versions: readonly bigint[], fault?: TailFault): Buffer {
  return sequenceBytes(pageItems(ledger, versions, 'bcs', fault).map(item => Buffer.from(item)))
}

/** Lists versions from one on. */
export function versionsFrom (first: bigint, count: number): bigint[] {
  return Array.from({ length: count }, (_, index) => first + BigInt(index))
}

const modes = ['on', 'observe', 'off'] as const

/** One of the modes. */
export type FollowMode = typeof modes[number]

/** Mode of following for a random run: by its seed, or by FOLLOW. */
export function followModeOf (seed: number): FollowMode {
  return modes.find(mode => mode === process.env['FOLLOW']) ?? modes[seed % modes.length] ?? 'off'
}

/** Reads the series of following. */
export async function followSeriesOf ({ adminUrl }: Pick<TestVarve, 'adminUrl'>): Promise<Array<[string, number]>> {
  const { body } = await sendRequest(adminUrl, '/metrics')
  return body.split('\n').flatMap((line): Array<[string, number]> => {
    const [, name, value] = /^(varve_follow_\S+|varve_requests_total\S*hit_followed\S*) (\S+)$/.exec(line) ?? []
    return name === undefined || value === '0' ? [] : [[name, Number(value)]]
  })
}
