import { mock } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { type Test } from 'tap'
import { Follower, type FollowState } from '../../src/follow/follower.js'
import { type FollowedHead, type KnownTransaction, LedgerKnowledge } from '../../src/follow/ledger-knowledge.js'
import { TailLoop } from '../../src/follow/tail-loop.js'
import { type TailReading } from '../../src/follow/tail-reader.js'
import { type TransactionDigest } from '../../src/follow/transaction-digest.js'
import { stampedAt, transactionAt } from './followed-chain.js'

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
