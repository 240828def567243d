import { hash } from 'node:crypto'
import t, { type Test } from 'tap'
import { type ResponsePosition } from '../../src/api/position.js'
import { type LeaseResult } from '../../src/cache/coalescer.js'
import { type FollowedHead, LedgerKnowledge } from '../../src/follow/ledger-knowledge.js'
import { Follower } from '../../src/follow/follower.js'
import { TailLoop } from '../../src/follow/tail-loop.js'
import { type TailReading } from '../../src/follow/tail-reader.js'
import { Deferred } from '../../src/peers/deferred.js'
import { RedisTail, type RedisTailOptions } from '../../src/peers/redis-tail.js'
import { type RedisProcess, startRedis } from '../support/redis-server.js'
import { redisLinkTo } from '../support/redis-tier.js'
import { stampedAt } from '../support/tail.js'
import { startIdleMeter, until } from '../support/until.js'

const maxAgeMs = 200

/** A ledger that several hosts read, each through an upstream of its own. */
class Ledger {
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
interface TestHost {
  readonly tail: RedisTail
  readonly loop: TailLoop
  readonly follower: Follower
  readonly counts: Record<LeaseResult, number>
  /** Readings of its own upstream. */
  readings: number
  /** Roots that it has read. */
  roots: number
  readonly different: string[]
  readonly served: ResponsePosition[]
  /** Runs with each head that may be served. */
  onServed: () => void
  /** Result of a reading; undefined reads the ledger. */
  respond: () => Promise<TailReading> | undefined
}

/** Starts hosts at one Redis, whose messages arrive at once. */
function fleetAt (
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
      requiresVerified: false,
      space: () => 'space',
      mayBeOurs: () => true,
      readRoot: async version => {
        host.roots++
        return Number(version) > ledger.head
          ? undefined
          : { root: ledger.rootAt(version), stamped: stampedAt(ledger.head) }
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
async function untilAt ({ follower }: TestHost, { head, key }: Ledger): Promise<void> {
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
async function grow (ledger: Ledger, hosts: readonly TestHost[], times = 5): Promise<void> {
  for (let nth = 0; nth < times; nth++) {
    ledger.head += 3
    for (const host of hosts) await untilAt(host, ledger)
  }
}

/** Hangs, as an upstream or a process that is stopped. */
const never = async (): Promise<TailReading> => await new Promise(() => {})

t.test('one host reads the tail for all, and another one once it is gone', async t => {
  const start = fleetAt(t, await startRedis(t))
  const ledger = new Ledger()
  const [first, second, third] = [await start(ledger), await start(ledger), await start(ledger)]
  await grow(ledger, [first, second, third])
  t.ok(first.readings > 0)
  t.same([second.readings, third.readings], [0, 0])
  t.same([second.roots, third.roots], [1, 1], 'each proves the reader by a root of its own upstream')
  t.match([second, third], [{ counts: { taken: 0, failed: 0 } }, { counts: { taken: 0, failed: 0 } }])
  // Hangs with the lease, as a process that is stopped.
  first.respond = never
  await until(() => first.follower.headFor(performance.now()) === undefined, 'the reader hangs')
  const idle = startIdleMeter()
  ledger.head++
  await Promise.all([second, third].map(async host => {
    await untilAt(host, ledger)
  }))
  t.ok(idle() < 3000, `after ${idle()} ms`)
  t.equal(second.counts.lapsed + third.counts.lapsed, 1)
})

t.test('a reader that stands still for seconds makes no read older than allowed once it wakes', async t => {
  const start = fleetAt(t, await startRedis(t))
  const ledger = new Ledger()
  const first = await start(ledger)
  await grow(ledger, [first])
  const others = [await start(ledger), await start(ledger)]
  await grow(ledger, [first, ...others])
  const heads = [{ atMs: performance.now(), version: ledger.head }]
  const growth = setInterval(() => {
    heads.push({ atMs: performance.now(), version: ++ledger.head })
  }, 20)
  t.teardown(() => {
    clearInterval(growth)
  })
  let reads = 0
  const check = (): void => {
    for (const { follower } of [first, ...others]) {
      const nowMs = performance.now()
      const served = follower.headFor(nowMs)?.position.head.version
      const least = heads.findLast(({ atMs }) => atMs <= nowMs - maxAgeMs)?.version ?? 0
      if (served === undefined) continue
      reads++
      if (served < least) t.fail(`version ${served} is older than ${least}`)
    }
  }
  for (const host of [first, ...others]) host.onServed = check
  const checks = setInterval(check, 5)
  t.teardown(() => {
    clearInterval(checks)
  })
  const standStill = (): Deferred<undefined> => {
    const wakes = new Deferred<undefined>()
    first.respond = () => {
      first.respond = () => undefined
      // The response comes at once, and the process goes on with it later.
      const read = ledger.read(first.follower.head)
      return wakes.promise.then(async () => await read)
    }
    return wakes
  }
  const short = standStill()
  const idle = startIdleMeter()
  await until(() => idle() > 1000, 'it stands still for a second')
  const waited = others.map(({ counts }) => counts.waited)
  short.resolve(undefined)
  await until(() => others.every(({ counts }, index) => counts.waited > (waited[index] ?? 0) + 1), 'it goes on')
  t.same(others.map(({ counts }) => counts.lapsed), [0, 0], 'its lease had not ended')
  const long = standStill()
  await until(() => others.some(({ counts }) => counts.lapsed > 0), 'another one reads')
  const before = reads
  await until(() => reads > before + 100, 'the others serve')
  long.resolve(undefined)
  await until(() => first.counts.not_stored === 1, 'its digest comes too late')
  await until(() => first.counts.waited > 2, 'it follows the other one')
  await until(() => reads > before + 400, 'all serve')
  t.same(others.map(({ different }) => different), [[], []])
})

t.test('a host that begins later knows what the others have read, and nothing before', async t => {
  const redis = await startRedis(t)
  const start = fleetAt(t, redis)
  const ledger = new Ledger()
  const first = await start(ledger)
  await untilAt(first, ledger)
  const begun = ledger.head
  await grow(ledger, [first])
  const late = await start(ledger)
  await grow(ledger, [late], 1)
  const [key] = [ledger.key(begun + 1)]
  t.equal(late.follower.validityAt(BigInt(begun + 1), BigInt(begun), [key]), 'unknown', 'it was touched again')
  t.equal(late.follower.validityAt(BigInt(begun + 1), BigInt(begun), [ledger.key(begun + 2), 99n]), 'unknown')
  t.equal(late.follower.validityAt(BigInt(ledger.head), BigInt(begun), [99n]), 'unchanged')
  t.equal(late.follower.validityAt(BigInt(ledger.head), BigInt(begun - 2), [99n]), 'unknown')
  t.equal(late.readings, 0)
})

t.test('a gap in the digests is unknown', async t => {
  const redis = await startRedis(t)
  const start = fleetAt(t, redis)
  const ledger = new Ledger()
  const [first, second] = [await start(ledger), await start(ledger)]
  await grow(ledger, [first, second])
  const from = BigInt(ledger.head)
  // Trims what the second host has not read.
  const stream = await streamIn(redis)
  second.loop.close()
  await grow(ledger, [first])
  await redis.client.xtrim(stream, 'MAXLEN', 1)
  const third = await start(ledger)
  await grow(ledger, [first, third], 1)
  t.equal(third.follower.validityAt(BigInt(ledger.head), from, [99n]), 'unknown')
  t.equal(first.follower.validityAt(BigInt(ledger.head), from, [99n]), 'unchanged')
})

t.test('a host whose upstream has another root reads for itself', async t => {
  const start = fleetAt(t, await startRedis(t))
  const [ledger, other] = [new Ledger(), new Ledger('another ledger')]
  const liar = await start(other)
  await grow(other, [liar])
  const host = await start(ledger)
  await grow(ledger, [host])
  t.ok(host.readings > 0)
  t.match(host.different, [/^an upstream of this host has another root at version \d+$/])
  t.equal(host.counts.waited, 0, 'nothing of the other ledger counts')
  other.head += 50
  await grow(other, [liar])
  await grow(ledger, [host])
  t.equal(host.different.length, 1)
})

t.test('a host that follows on another root takes no digest, and forgets what it knows', async t => {
  const start = fleetAt(t, await startRedis(t))
  const [ledger, other] = [new Ledger(), new Ledger('another ledger')]
  const host = await start(ledger)
  await grow(ledger, [host], 2)
  const from = BigInt(ledger.head)
  other.head = ledger.head
  const hangs = new Deferred<TailReading>()
  host.respond = async () => await hangs.promise
  const liar = await start(other, { readRoot: async () => undefined })
  await until(() => liar.counts.lapsed > 0 && liar.follower.state === 'following', 'the other one reads')
  host.respond = () => undefined
  hangs.resolve({ result: 'failed', transactions: [], stamped: undefined })
  await until(() => host.different.length > 0, 'it has noticed')
  await grow(ledger, [host], 2)
  t.equal(host.follower.validityAt(BigInt(ledger.head), from - 2n, [99n]), 'unknown')
  t.equal(host.counts.waited, 0)
})

t.test('an upstream far ahead of what another host reads ends the trust in it', async t => {
  const start = fleetAt(t, await startRedis(t))
  const ledger = new Ledger()
  const lagging = await start(ledger)
  await untilAt(lagging, ledger)
  let isAhead = false
  const clock = { offsetMs: 0 }
  const host: TestHost = await start(ledger, {
    now: () => performance.now() + clock.offsetMs,
    readRoot: async version => {
      const { family, position } = stampedAt(ledger.head)
      const head = { ...position.head, timestampUsec: position.head.timestampUsec + (isAhead ? 20_000_000n : 0n) }
      return { root: ledger.rootAt(version), stamped: { family, position: { ...position, head } } }
    }
  })
  await grow(ledger, [lagging, host])
  t.equal(host.readings, 0)
  isAhead = true
  // It is time for the next proof.
  clock.offsetMs = 9000
  await until(() => host.different.length > 0, 'it has noticed')
  t.match(host.different, ['an upstream of this host is ahead of it'])
  await until(() => host.readings > 0, 'it reads for itself')
})

t.test('a proven difference stops all hosts that have read the same digests', async t => {
  const redis = await startRedis(t)
  const start = fleetAt(t, redis)
  const ledger = new Ledger()
  const [first, second, third] = [await start(ledger), await start(ledger), await start(ledger)]
  await grow(ledger, [first, second, third])
  second.follower.setState('stopped', 'a followed hit differs')
  await until(() => first.follower.state === 'stopped' && third.follower.state === 'stopped', 'all have stopped')
  t.match([first, third].map(({ follower }) => follower.reason), ['a followed hit differs', 'a followed hit differs'])
  t.equal(await redis.client.xlen(await streamIn(redis)), 1, 'the digests are gone')
  const later = await start(ledger)
  await grow(ledger, [later])
  t.equal(first.follower.headFor(performance.now()), undefined)
})

t.test('hosts go on when Redis loses its data, restarts or is gone', async t => {
  const redis = await startRedis(t)
  const start = fleetAt(t, redis)
  const ledger = new Ledger()
  const hosts = [await start(ledger), await start(ledger), await start(ledger)]
  await grow(ledger, hosts)
  for (let nth = 0; nth < 3; nth++) {
    await redis.client.flushall()
    await grow(ledger, hosts, 2)
  }
  await redis.kill()
  const before = hosts.map(({ readings }) => readings)
  await grow(ledger, hosts, 2)
  t.ok(hosts.every(({ readings }, index) => readings > (before[index] ?? 0)), 'each reads for itself')
  await redis.start()
  await until(async () => await redis.client.exists(await streamIn(redis)) === 1, 'one reads for all again')
  await grow(ledger, hosts, 4)
  t.same(hosts.map(({ different }) => different), [[], [], []])
})

t.test('two hosts that both believe to read for all never mix their digests', async t => {
  const redis = await startRedis(t)
  const start = fleetAt(t, redis)
  const ledger = new Ledger()
  const hosts = [await start(ledger), await start(ledger), await start(ledger)]
  await grow(ledger, hosts)
  const stream = await streamIn(redis)
  const taking = setInterval(() => {
    redis.client.del(`${stream}:lease`).catch(() => {})
    for (const { loop } of hosts) loop.wake()
  }, 3)
  t.teardown(() => {
    clearInterval(taking)
  })
  await grow(ledger, hosts, 30)
  clearInterval(taking)
  t.same(hosts.map(({ different }) => different), [[], [], []])
  const ends = (await redis.client.xrange(stream, '-', '+')).map(([id]) => id)
  t.same(ends, [...new Set(ends)])
})

t.test('a digest that is damaged, from the future or not verified is not used', async t => {
  const redis = await startRedis(t)
  const start = fleetAt(t, redis)
  const ledger = new Ledger()
  const first = await start(ledger)
  await grow(ledger, [first])
  const strict = await start(ledger, { requiresVerified: true })
  await grow(ledger, [first, strict])
  t.equal(strict.counts.waited, 0)
  t.ok(strict.readings > 0)
  strict.loop.close()
  const second = await start(ledger)
  await grow(ledger, [first, second])
  t.equal(second.readings, 0)
  first.respond = never
  const stream = await streamIn(redis)
  await redis.client.xadd(stream, `${ledger.head + 5}-0`, 'digest', '0 {}')
  ledger.head += 8
  await untilAt(second, ledger)
  t.ok(second.readings > 0, 'it has read past the damage')
})

t.test('no digest is fresh while the clock of Redis goes back', async t => {
  const redis = await startRedis(t)
  const start = fleetAt(t, redis)
  const ledger = new Ledger()
  const first = await start(ledger)
  await grow(ledger, [first])
  const inner = redisLinkTo(t, redis.url, () => {})
  await inner.start({ onUp: () => {}, onDown: () => {} })
  let backSeconds = 0
  const host = await start(ledger, {
    link: {
      isSteady: true,
      run: async (...command) => {
        const reply: unknown = await inner.run(...command)
        if (Array.isArray(reply)) reply[0] = Number(reply[0]) - backSeconds
        return reply as never
      }
    }
  })
  await grow(ledger, [host], 2)
  const before = host.served.length
  const going = setInterval(() => {
    backSeconds++
  }, 1)
  t.teardown(() => {
    clearInterval(going)
  })
  const waited = host.counts.waited
  ledger.head++
  await until(() => host.counts.waited > waited + 2, 'digests come')
  const versions = host.served.slice(before + 1).map(({ position }) => position.head.version)
  t.notOk(versions.includes(BigInt(ledger.head)), versions.join())
})

async function streamIn ({ client }: RedisProcess): Promise<string> {
  return (await client.keys('*tail:*')).find(key => key.endsWith('}')) ?? ''
}
