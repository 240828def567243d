import { hash } from 'node:crypto'
import { type Test } from 'tap'
import { type ResponsePosition } from '../../src/api/position.js'
import { type LeaseResult } from '../../src/cache/coalescer.js'
import { Follower } from '../../src/follow/follower.js'
import { type FollowedHead, LedgerKnowledge } from '../../src/follow/ledger-knowledge.js'
import { TailLoop } from '../../src/follow/tail-loop.js'
import { type TailReading } from '../../src/follow/tail-reader.js'
import { RedisTail, type RedisTailOptions } from '../../src/peers/redis-tail.js'
import { type RedisProcess } from './redis-server.js'
import { redisLinkTo } from './redis-tier.js'
import { stampedAt } from './tail.js'
import { until } from './until.js'

/** Age above which a head serves nothing. */
export const maxAgeMs = 200
/** Key of the Stream. */
export const stream = 'varve:1:{tail:space:release}'
/** Key of the lease. */
export const lease = `${stream}:lease`

/** A ledger that several hosts read, each through an upstream of its own. */
export class Ledger {
  head = 1000
  readings = 0
  readonly key = (version: number): bigint => BigInt(version % 7) + 1n
  readonly name: string

  constructor (name = 'a ledger') {
    this.name = name
  }

  readonly rootAt = (version: bigint): string => hash('sha256', `${this.name} ${version}`)

  readonly read = async (head: FollowedHead | undefined): Promise<TailReading> => {
    this.readings++
    const end = this.head
    await new Promise(resolve => {
      setTimeout(resolve, 2)
    })
    const from = head === undefined ? end : Number(head.version) + 1
    const transactions = Array.from({ length: Math.max(0, end - from + 1) }, (_, index) => ({
      version: BigInt(from + index),
      root: this.rootAt(BigInt(from + index)),
      hashes: undefined,
      touched: [this.key(from + index)],
      touchesAll: undefined
    }))
    return { result: transactions.length === 0 ? 'empty' : 'ok', transactions, stamped: stampedAt(end) }
  }
}

/** A host that follows a ledger. */
export interface TestHost {
  readonly tail: RedisTail
  readonly loop: TailLoop
  readonly follower: Follower
  readonly counts: Record<LeaseResult, number>
  /** Readings of its own upstream. */
  readings: number
  /** Roots that it has read. */
  roots: number
  /** Roots that it has read and found to be those that it follows. */
  confirmed: number
  readonly different: string[]
  readonly served: ResponsePosition[]
  /** Runs with each head that may be served. */
  onServed: () => void
  /** Result of a reading; undefined reads the ledger. */
  respond: () => Promise<TailReading> | undefined
}

/** Starts hosts at one Redis, whose messages arrive at once. */
export function fleetAt (
  t: Test,
  redis: RedisProcess
): (ledger: Ledger, change?: Partial<RedisTailOptions>) => Promise<TestHost> {
  const hosts: TestHost[] = []
  return async (ledger, change = {}) => {
    const link = redisLinkTo(t, redis.url, () => {})
    await link.start({ onUp: () => {}, onDown: () => {} })
    const counts = { taken: 0, waited: 0, not_stored: 0, failed: 0, lapsed: 0 }
    const now = (): number => performance.now()
    const tail = new RedisTail({
      link,
      prefix: 'varve:1:',
      form: 'release',
      maxAgeMs,
      requiresVerified: false,
      space: () => 'space',
      mayBeOurs: () => true,
      readRoot: async version => {
        host.roots++
        return Number(version) > ledger.head
          ? undefined
          : { root: ledger.rootAt(version), stamped: stampedAt(ledger.head), confirm: () => host.confirmed++ }
      },
      onDifferent: reason => {
        host.different.push(reason)
        host.loop.reset('mismatch')
      },
      announce: source => {
        setImmediate(() => {
          for (const each of hosts) if (each.tail.isOfOthers(source)) each.loop.wake()
        })
      },
      now,
      leased: result => {
        counts[result]++
      },
      ...change
    })
    const served: ResponsePosition[] = []
    const follower = new Follower({
      now,
      maxAgeMs,
      isServing: true,
      servedVersion: () => undefined,
      onServedHead: stamped => {
        if (stamped === undefined) return
        served.push(stamped)
        host.onServed()
      },
      onState: (state, reason) => {
        if (state === 'stopped') tail.stop(reason ?? '')
      }
    }, new LedgerKnowledge(1024))
    const read = async (head: FollowedHead | undefined): Promise<TailReading> => {
      host.readings++
      return await (host.respond() ?? ledger.read(head))
    }
    const loop = new TailLoop({
      reader: { readHead: async () => await read(undefined), readAfter: read },
      shared: tail,
      follower,
      now,
      maxAgeMs,
      metrics: { read: () => {}, touchedAll: () => {} },
      onMismatch: async () => {}
    })
    const host: TestHost = {
      tail,
      loop,
      follower,
      counts,
      readings: 0,
      roots: 0,
      confirmed: 0,
      different: [],
      served,
      onServed: () => {},
      respond: () => undefined
    }
    follower.setDemandSink(loop)
    hosts.push(host)
    t.teardown(() => {
      loop.close()
    })
    loop.recordRead()
    return host
  }
}

/** Waits until a host follows to the head of a ledger, and compares what it knows with the truth. */
export async function untilAt ({ follower }: TestHost, { head, key }: Ledger): Promise<void> {
  const isThere = (): boolean => Number(follower.headFor(performance.now())?.position.head.version) >= head
  await until(isThere, `the host follows to ${head}: ${follower.state} at ${follower.head?.version}`)
  for (let readAt = head - 4; readAt < head; readAt++) {
    const touched = Array.from({ length: head - readAt }, (_, index) => key(readAt + 1 + index))
    for (let each = 1n; each <= 7n; each++) {
      const validity = follower.validityAt(BigInt(head), BigInt(readAt), [each])
      if (validity === 'unchanged' && touched.includes(each)) throw new Error(`key ${each} has changed since ${readAt}`)
    }
  }
}

/** Grows a ledger, and waits each time until hosts follow it. */
export async function grow (ledger: Ledger, hosts: readonly TestHost[], times = 5): Promise<void> {
  for (let nth = 0; nth < times; nth++) {
    ledger.head += 3
    for (const host of hosts) await untilAt(host, ledger)
  }
}

/** Starts a host that reads the tail for all, then one that takes its digests. */
export async function startTwo (
  start: ReturnType<typeof fleetAt>,
  ledger: Ledger,
  change: Partial<RedisTailOptions> = {}
): Promise<[reader: TestHost, other: TestHost]> {
  const reader = await start(ledger, change)
  await grow(ledger, [reader])
  const other = await start(ledger)
  await grow(ledger, [reader, other])
  return [reader, other]
}

/** Hangs, as an upstream or a process that is stopped. */
export const never = async (): Promise<TailReading> => await new Promise(() => {})

/** Link to a Redis that fails scripts which contain a text. */
export interface BreakableLink {
  readonly link: RedisTailOptions['link']
  breaks: string | undefined
  failures: number
}

/** Makes a link whose scripts can fail. */
export async function breakableLink (t: Test, redis: RedisProcess): Promise<BreakableLink> {
  const inner = redisLinkTo(t, redis.url, () => {})
  await inner.start({ onUp: () => {}, onDown: () => {} })
  const broken: BreakableLink = {
    breaks: undefined,
    failures: 0,
    link: {
      isSteady: true,
      forgetScriptError: operation => inner.forgetScriptError(operation),
      runScript: async (operation, script, ...parts) => {
        const { breaks } = broken
        if (breaks === undefined || !script.includes(breaks)) return await inner.runScript(operation, script, ...parts)
        broken.failures++
        throw new Error('a script fails')
      }
    }
  }
  return broken
}
