import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { type TailReading } from '../../src/follow/tail-reader.js'
import { Deferred } from '../../src/peers/deferred.js'
import { DigestStream, type Place } from '../../src/peers/digest-stream.js'
import { startRedis } from '../support/redis-server.js'
import { redisLinkTo } from '../support/redis-tier.js'
import { stampedAt } from '../support/tail.js'
import {
  breakableLink,
  fleetAt,
  grow,
  lease,
  Ledger,
  maxAgeMs,
  never,
  startTwo,
  stream,
  type TestHost,
  untilAt
} from '../support/tail-hosts.js'
import { startIdleMeter, until } from '../support/until.js'

/** Times that a host has begun to read for all: which of the two counts it is depends on its last look at the lease. */
const timesLed = ({ counts }: TestHost): number => counts.taken + counts.lapsed

t.test('one host reads the tail for all, and another one once it is gone', async t => {
  const start = fleetAt(t, await startRedis(t))
  const ledger = new Ledger()
  const hosts = [await start(ledger), await start(ledger), await start(ledger)]
  let readers: TestHost[] = []
  // A stall of the machine lets another host read: the first growth counts in which all but one only take digests.
  await until(async () => {
    const before = hosts.map(({ readings }) => readings)
    await grow(ledger, hosts)
    readers = hosts.filter(({ readings }, at) => readings > (before[at] ?? 0))
    return readers.length === 1
  }, 'one host reads for all')
  const [reader] = readers
  if (reader === undefined) throw new Error('no host reads')
  const others = hosts.filter(host => host !== reader)
  for (const { roots, confirmed } of others) {
    t.ok(roots >= 1, 'each proves the reader by a root of its own upstream')
    t.equal(confirmed, roots, 'which proves the upstream too')
  }
  const lapsed = (): number => others.reduce((sum, { counts }) => sum + counts.lapsed, 0)
  const before = lapsed()
  // Hangs with the lease, as a process that is stopped.
  reader.respond = never
  await until(() => reader.follower.headFor(performance.now()) === undefined, 'the reader hangs')
  const idle = startIdleMeter()
  ledger.head++
  await Promise.all(others.map(async host => {
    await untilAt(host, ledger)
  }))
  t.ok(idle() < 3000, `after ${idle()} ms`)
  t.equal(lapsed() - before, 1)
})

t.test('a reader that stands still for seconds makes no read older than allowed once it wakes', async t => {
  const redis = await startRedis(t)
  const start = fleetAt(t, redis)
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
  await until(() => others.every(({ counts }, index) => counts.waited > (waited[index] ?? 0)), 'its digest comes')
  t.same(others.map(({ counts }) => counts.lapsed), [0, 0], 'its lease had not ended')
  await until(() => others.some(host => timesLed(host) > 0), 'it has left the lease to another one')
  const led = timesLed(first)
  await until(async () => {
    if (timesLed(first) > led) return true
    await redis.client.del(lease)
    first.loop.wake()
    return false
  }, 'it reads again')
  const long = standStill()
  const before = others.map(timesLed)
  const notStored = first.counts.not_stored
  await until(() => others.some((host, index) => timesLed(host) > (before[index] ?? 0)), 'another one reads')
  const served = reads
  await until(() => reads > served + 100, 'the others serve')
  long.resolve(undefined)
  await until(() => first.counts.not_stored === notStored + 1, 'its digest comes too late')
  const followed = first.counts.waited
  await until(() => first.counts.waited > followed + 2, 'it follows the other one')
  await until(() => reads > served + 400, 'all serve')
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
  const { head } = second.follower
  second.loop.close()
  await grow(ledger, [first])
  await redis.client.xtrim(stream, 'MAXLEN', 1)
  const third = await start(ledger)
  await grow(ledger, [first, third], 1)
  t.equal(third.follower.validityAt(BigInt(ledger.head), from, [99n]), 'unknown')
  t.same(await second.tail.next(head), { kind: 'alone' }, 'an upstream has what is missing')
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
  t.equal(host.confirmed, 0)
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
      return { root: ledger.rootAt(version), stamped: { family, position: { ...position, head } }, confirm: () => {} }
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

t.test('a reader that is right at first and lies later is found by the next root', async t => {
  const start = fleetAt(t, await startRedis(t))
  const [ledger, other] = [new Ledger(), new Ledger('another ledger')]
  const reader = await start(ledger)
  await untilAt(reader, ledger)
  let truth = ledger
  const clock = { offsetMs: 0 }
  const host: TestHost = await start(ledger, {
    now: () => performance.now() + clock.offsetMs,
    readRoot: async version => ({ root: truth.rootAt(version), stamped: stampedAt(ledger.head), confirm: () => {} })
  })
  await grow(ledger, [reader, host])
  t.same(host.different, [])
  truth = other
  // It is time for the next proof.
  clock.offsetMs = 9000
  await until(() => host.different.length > 0, 'it has noticed')
  t.match(host.different, [/^an upstream of this host has another root at version \d+$/])
  await until(() => host.readings > 0, 'it reads for itself')
})

t.test('the Stream of digests holds the last 256 readings, of long ones fewer', async t => {
  const redis = await startRedis(t)
  const link = redisLinkTo(t, redis.url, () => {})
  await link.start({ onUp: () => {}, onDown: () => {} })
  const digests = new DigestStream(link, 'varve:1:', 'space:release', 'a host')
  let place: Place = { version: 0n, nth: 0 }
  const append = async (text: string, times: number): Promise<number> => {
    for (let nth = 0; nth < times; nth++) {
      place = await digests.append(place, place.version + 1n, text, 0, '') ?? place
    }
    return await redis.client.xlen(stream)
  }
  t.equal(await append('short', 300), 256)
  t.equal(place.version, 300n)
  t.equal(await append('x'.repeat(1_048_576), 2), 16)
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
  t.equal(await redis.client.exists(stream), 0, 'the digests are gone')
  const later = await start(ledger)
  await grow(ledger, [later])
  t.equal(first.follower.headFor(performance.now()), undefined)
})

t.test('a stop reaches a host whose reading ends after it', async t => {
  const redis = await startRedis(t)
  const start = fleetAt(t, redis)
  const ledger = new Ledger()
  const [first, second] = [await start(ledger), await start(ledger)]
  await grow(ledger, [first, second])
  const [begins, ends] = [new Deferred<undefined>(), new Deferred<undefined>()]
  first.respond = async () => {
    first.respond = () => undefined
    begins.resolve(undefined)
    await ends.promise
    return await ledger.read(first.follower.head)
  }
  await begins.promise
  second.follower.setState('stopped', 'a followed hit differs')
  await until(async () => await redis.client.exists(`${stream}:stop`) === 1, 'the stop is stored')
  ledger.head += 10
  ends.resolve(undefined)
  await until(() => first.follower.state === 'stopped', 'it has stopped')
  t.equal(first.follower.reason, 'a followed hit differs')
  t.equal(await redis.client.exists(stream), 0, 'its digest is not stored')
  t.ok(await redis.client.ttl(`${stream}:stop`) > 80_000)
})

t.test('a stop of following that Redis rejects is tried again, and what is wrong is not shared', async t => {
  const redis = await startRedis(t)
  const start = fleetAt(t, redis)
  const ledger = new Ledger()
  const broken = await breakableLink(t, redis)
  const [first, second] = await startTwo(start, ledger, { link: broken.link })
  broken.breaks = '\'EX\''
  second.respond = async () => ({ result: 'failed', transactions: [], stamped: undefined })
  const wrong = new Deferred<undefined>()
  first.respond = async () => {
    ledger.head += 10
    const reading = await ledger.read(first.follower.head)
    first.follower.setState('stopped', 'the changes of a page are not those of its hash')
    wrong.resolve(undefined)
    return reading
  }
  await wrong.promise
  await until(() => broken.failures > 1, 'it tries again')
  const versions = (await redis.client.xrange(stream, '-', '+')).map(([id]) => Number(id.split('-')[0]))
  t.ok(Math.max(...versions) < ledger.head, versions.join())
  broken.breaks = undefined
  await until(() => second.follower.state === 'stopped', 'the other one has stopped')
})

t.test('a reader whose pages take too long leaves the reading to another host', async t => {
  const start = fleetAt(t, await startRedis(t))
  const ledger = new Ledger()
  const [first, second] = await startTwo(start, ledger)
  first.respond = async () => {
    await pause(1.5 * maxAgeMs)
    return await ledger.read(first.follower.head)
  }
  await until(() => timesLed(second) > 0, 'another one reads')
  await grow(ledger, [second])
})

t.test('a host that waits for one that brings nothing reads for itself', async t => {
  const redis = await startRedis(t)
  const start = fleetAt(t, redis)
  const ledger = new Ledger()
  const renewal = setInterval(() => {
    redis.client.set(lease, 'another host', 'PX', 2000).catch(() => {})
  }, 100)
  t.teardown(() => {
    clearInterval(renewal)
  })
  await redis.client.set(lease, 'another host', 'PX', 2000)
  const host = await start(ledger)
  const idle = startIdleMeter()
  await grow(ledger, [host])
  t.ok(idle() < 5000, `after ${idle()} ms`)
  t.same([host.counts.taken, host.counts.lapsed], [0, 0])
  clearInterval(renewal)
  await until(() => host.counts.lapsed > 0, 'it reads for all')
})

t.test('a reader whose upstream lags gives the lease up, and follows the others', async t => {
  const start = fleetAt(t, await startRedis(t))
  const ledger = new Ledger()
  const [first, second] = await startTwo(start, ledger)
  first.respond = async () => ({ result: 'empty', transactions: [], stamped: undefined })
  await until(() => timesLed(second) > 0, 'another one reads')
  await grow(ledger, [first, second])
})

t.test('a reader that cannot write to Redis gives the lease up, and follows the others', async t => {
  const redis = await startRedis(t)
  const start = fleetAt(t, redis)
  const ledger = new Ledger()
  const broken = await breakableLink(t, redis)
  const [first, second] = await startTwo(start, ledger, { link: broken.link })
  broken.breaks = 'XADD'
  await until(() => timesLed(second) > 0, 'another one reads')
  const { waited } = first.counts
  await grow(ledger, [first, second])
  t.ok(first.counts.waited > waited)
})

t.test('a host that no longer follows shows no error of the digests', async t => {
  const redis = await startRedis(t)
  const link = redisLinkTo(t, redis.url, () => {})
  await link.start({ onUp: () => {}, onDown: () => {} })
  const ledger = new Ledger()
  const host = await fleetAt(t, redis)(ledger, { link })
  await grow(ledger, [host])
  await redis.client.set(stream, 'of another type')
  await until(() => link.scriptErrorOf('tail') !== undefined, 'digests are refused')
  host.loop.close()
  await until(() => link.scriptErrorOf('tail') === undefined, 'the error is over')
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
  await until(async () => await redis.client.exists(stream) === 1, 'one reads for all again')
  await grow(ledger, hosts, 4)
  t.same(hosts.map(({ different }) => different), [[], [], []])
})

t.test('two hosts that both believe to read for all never mix their digests', async t => {
  const redis = await startRedis(t)
  const start = fleetAt(t, redis)
  const ledger = new Ledger()
  const hosts = [await start(ledger), await start(ledger), await start(ledger)]
  await grow(ledger, hosts)
  const taking = setInterval(() => {
    redis.client.del(lease).catch(() => {})
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
      forgetScriptError: operation => inner.forgetScriptError(operation),
      runScript: async (...script) => {
        const reply = await inner.runScript(...script)
        if (Array.isArray(reply)) reply[0] = Number(reply[0]) - backSeconds
        return reply
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
