import t, { type Test } from 'tap'
import { WriteQueue } from '../../src/cache/write-queue.js'
import { startSandbox } from '#sandbox'
import { sendRequest } from '../support/client.js'
import { startIdleMeter, until } from '../support/until.js'
import { startRedis } from '../support/redis-server.js'
import { openRedisTier, storedEntryOf } from '../support/redis-tier.js'
import { slowRedis } from '../support/tcp-gate.js'
import { varveAt } from '../support/varve.js'

const status = 'cache-status'
const mega = 1024 * 1024
const maxBytes = 32 * mega

/** Writes into nothing; the test decides every outcome. */
class Scripted {
  readonly begun: string[] = []
  readonly outcomes: Array<string | undefined> = []
  readonly queue: WriteQueue<string>
  canWrite = true
  nowMs = 0
  most = 0
  heldBytes = 0
  readonly #bytes = new Map<string, number>()
  readonly #open = new Map<string, { resolve: () => void, reject: (error: Error) => void }>()

  constructor (t: Test) {
    this.queue = new WriteQueue(async item => await this.#write(item), {
      now: () => this.nowMs,
      hold: item => {
        const bytes = this.#bytes.get(item) ?? 1
        if (this.heldBytes + bytes > maxBytes) return undefined
        this.heldBytes += bytes
        return {
          release: () => {
            this.heldBytes -= bytes
          }
        }
      },
      canWrite: () => this.canWrite,
      onWriteError: reason => {
        this.outcomes.push(reason)
      }
    })
    t.teardown(() => {
      this.queue.stop()
    })
  }

  add (key: string, bytes: number, item: string): void {
    this.#bytes.set(item, bytes)
    this.queue.add(key, item)
  }

  async #write (item: string): Promise<void> {
    this.begun.push(item)
    await new Promise<void>((resolve, reject) => {
      this.#open.set(item, { resolve, reject })
      this.most = Math.max(this.most, this.#open.size)
    })
  }

  async succeed (item: string): Promise<void> {
    this.#end(item).resolve()
    await new Promise(setImmediate)
  }

  async fail (item: string, reason = 'no'): Promise<void> {
    this.#end(item).reject(new Error(reason))
    await new Promise(setImmediate)
  }

  /** Ends the pause after a rejected write. */
  resumeAfterPause (): void {
    this.nowMs += 1000
    this.queue.resume()
  }

  #end (item: string): { resolve: () => void, reject: (error: Error) => void } {
    const write = this.#open.get(item)
    if (write === undefined) throw new Error(`${item} is not under way`)
    this.#open.delete(item)
    return write
  }
}

t.test('eight writes are in flight at most, and the others follow in order', async t => {
  const scripted = new Scripted(t)
  const items = Array.from({ length: 30 }, (_, nth) => `${nth}`)
  for (const item of items) scripted.add(item, 1, item)
  t.same([scripted.begun, scripted.queue.size], [items.slice(0, 8), 22])
  for (const item of items) await scripted.succeed(item)
  t.same([scripted.begun, scripted.most, scripted.queue.size], [items, 8, 0])
  t.ok(scripted.outcomes.every(reason => reason === undefined))
})

t.test('a key has one write in flight, and only its newest queued write follows', async t => {
  const scripted = new Scripted(t)
  for (const item of ['a1', 'a2', 'a3']) scripted.add('a', 1, item)
  scripted.add('b', 1, 'b1')
  t.same([scripted.begun, scripted.queue.size], [['a1', 'b1'], 1])
  await scripted.succeed('a1')
  t.same(scripted.begun, ['a1', 'b1', 'a3'])
  await scripted.succeed('a3')
  scripted.add('a', 1, 'a4')
  t.same(scripted.begun, ['a1', 'b1', 'a3', 'a4'])
})

t.test('the queue is bounded in number, drops the oldest writes and reports it', async t => {
  const scripted = new Scripted(t)
  scripted.canWrite = false
  for (let nth = 0; nth < 2003; nth++) scripted.add(`${nth}`, 1, `${nth}`)
  t.equal(scripted.queue.size, 2000)
  t.match(scripted.outcomes, [/write queue is full/, String, String])
  t.equal(scripted.outcomes.length, 3)
  scripted.canWrite = true
  scripted.queue.resume()
  t.same(scripted.begun, ['3', '4', '5', '6', '7', '8', '9', '10'])
})

t.test('the queue takes bytes from the budget, and returns those of written and dropped entries', async t => {
  const scripted = new Scripted(t)
  scripted.canWrite = false
  for (let nth = 0; nth < 40; nth++) scripted.add(`${nth}`, mega, `${nth}`)
  t.equal(scripted.queue.size, 32)
  for (let round = 0; round < 100; round++) scripted.add('39', mega, `round ${round}`)
  t.equal(scripted.queue.size, 32, 'the same key counts once')
  scripted.add('half', 16 * mega, 'half')
  t.equal(scripted.queue.size, 17)
  scripted.add('all', 33 * mega, 'all')
  t.equal(scripted.queue.size, 0, 'an entry above the limit is not queued')
  scripted.add('32', 32 * mega, '32')
  scripted.canWrite = true
  scripted.queue.resume()
  await scripted.succeed('32')
  scripted.canWrite = false
  for (let nth = 0; nth < 40; nth++) scripted.add(`${nth}`, mega, `${nth}`)
  t.equal(scripted.queue.size, 32, 'a write frees its bytes')
  scripted.queue.drop(() => true)
  for (let nth = 0; nth < 40; nth++) scripted.add(`${nth}`, mega, `${nth}`)
  t.equal(scripted.queue.size, 32, 'and so does a drop')
})

t.test('while Redis is down all writes are queued, and written when it is back', async t => {
  const scripted = new Scripted(t)
  scripted.canWrite = false
  for (const item of ['a', 'b', 'c']) scripted.add(item, 1, item)
  scripted.queue.resume()
  t.same([scripted.begun, scripted.queue.size], [[], 3])
  await scripted.queue.waitUntilIdle()
  scripted.canWrite = true
  scripted.queue.resume()
  t.same(scripted.begun, ['a', 'b', 'c'])
})

t.test('a rejected write is tried three times, 1 s apart, and its error reported until a success', async t => {
  const scripted = new Scripted(t)
  scripted.add('a', 1, 'a')
  for (let attempt = 1; attempt <= 3; attempt++) {
    t.equal(scripted.begun.length, attempt)
    await scripted.fail('a', `OOM ${attempt}`)
    scripted.nowMs += 999
    scripted.queue.resume()
    t.equal(scripted.begun.length, attempt, 'no retry before the pause ends')
    scripted.nowMs++
    scripted.queue.resume()
  }
  t.same([scripted.begun, scripted.queue.size], [['a', 'a', 'a'], 0])
  t.same(scripted.outcomes, ['OOM 1', 'OOM 2', 'OOM 3'])
  scripted.add('b', 1, 'b')
  await scripted.succeed('b')
  t.equal(scripted.outcomes.at(-1), undefined)
})

t.test('new writes wait during the pause after a rejection, and the pause ends by itself', async t => {
  const scripted = new Scripted(t)
  scripted.add('a', 1, 'a')
  await scripted.fail('a')
  for (const item of ['b', 'c']) scripted.add(item, 1, item)
  t.same([scripted.begun, scripted.queue.size], [['a'], 3])
  const waited = startIdleMeter()
  scripted.nowMs += 1000
  await until(() => scripted.begun.length === 4, 'the writes are tried again')
  t.ok(waited() < 1500)
  t.same(scripted.begun.slice(1).sort(), ['a', 'b', 'c'])
})

t.test('an outage does not count as an attempt of a write', async t => {
  const scripted = new Scripted(t)
  const failsInOutage = async (): Promise<void> => {
    scripted.canWrite = false
    await scripted.fail('a', 'the connection broke off')
    t.equal(scripted.queue.size, 1)
    scripted.canWrite = true
    scripted.resumeAfterPause()
  }
  scripted.add('a', 1, 'a')
  for (let outage = 0; outage < 10; outage++) await failsInOutage()
  for (let failure = 0; failure < 2; failure++) {
    await scripted.fail('a')
    t.equal(scripted.queue.size, 1)
    scripted.resumeAfterPause()
  }
  for (let outage = 0; outage < 10; outage++) await failsInOutage()
  t.equal(scripted.begun.length, 23)
  await scripted.fail('a')
  t.equal(scripted.queue.size, 0, 'the third rejection is the last')
})

t.test('a rejected write is not retried over a newer one under its key', async t => {
  const scripted = new Scripted(t)
  scripted.add('a', 1, 'old')
  scripted.add('a', 1, 'new')
  await scripted.fail('old')
  scripted.resumeAfterPause()
  await scripted.succeed('new')
  scripted.resumeAfterPause()
  t.same([scripted.begun, scripted.queue.size], [['old', 'new'], 0])
})

t.test('a dropped write is not written, nor retried after it failed in flight', async t => {
  for (const canWrite of [true, false]) {
    const scripted = new Scripted(t)
    for (let nth = 0; nth < 10; nth++) scripted.add(`${nth}`, 1, `${nth}`)
    scripted.queue.drop(item => item === '0' || item === '9')
    t.equal(scripted.queue.size, 1)
    let hasFinished = false
    const finished = scripted.queue.waitForInFlight().then(() => {
      hasFinished = true
    })
    scripted.canWrite = canWrite
    for (const item of ['0', '1']) await scripted.fail(item)
    t.notOk(hasFinished)
    for (let nth = 2; nth < 8; nth++) await scripted.succeed(`${nth}`)
    await finished
    scripted.canWrite = true
    scripted.resumeAfterPause()
    t.same(scripted.begun.slice(8).sort(), ['1', '8'], 'the others are written')
    await Promise.all(['1', '8'].map(async item => {
      await scripted.succeed(item)
    }))
    scripted.add('0', 1, '0 again')
    t.equal(scripted.begun.at(-1), '0 again', 'and so are later writes')
    await scripted.fail('0 again')
    scripted.resumeAfterPause()
    t.equal(scripted.begun.length, 12)
  }
})

t.test('waiting for idle includes writes that start meanwhile, and excludes paused ones', async t => {
  const scripted = new Scripted(t)
  const items = Array.from({ length: 10 }, (_, nth) => `${nth}`)
  for (const item of items) scripted.add(item, 1, item)
  let isIdle = false
  const idle = scripted.queue.waitUntilIdle().then(() => {
    isIdle = true
  })
  for (const item of items) {
    t.notOk(isIdle)
    await scripted.succeed(item)
  }
  await idle
  scripted.add('a', 1, 'a')
  const after = scripted.queue.waitUntilIdle()
  await scripted.fail('a')
  await after
  t.equal(scripted.queue.size, 1)
})

t.test('a stopped queue writes nothing, and takes nothing more', async t => {
  const scripted = new Scripted(t)
  scripted.add('a', 1, 'a')
  await scripted.fail('a')
  scripted.queue.stop()
  scripted.add('b', 1, 'b')
  scripted.resumeAfterPause()
  t.same([scripted.begun, scripted.queue.size], [['a'], 0])
})

const modules = (version: number): string => `/v1/accounts/0x1/modules?ledger_version=${version}&limit=1`

t.test('no response waits for its Redis write', async t => {
  const redis = await startRedis(t)
  const slow = await slowRedis(t, redis)
  const sandbox = await startSandbox({ blockMs: 0 })
  t.teardown(async () => {
    await sandbox.close()
  })
  const varve = await varveAt(t, sandbox.url, { cache: { redis: { url: slow.url, timeoutMs: 2000 } } })
  await until(async () => (await redis.client.keys('*control*')).length > 0, 'the control record is in Redis')
  slow.delayMs = 400
  t.equal((await varve.get(modules(2000))).headers[status], 'varve; fwd=uri-miss; fwd-status=200; stored')
  t.equal(await varve.metric('varve_cache_writes_total{tier="redis"}'), 0, 'the write is still in flight')
  await until(
    async () => await varve.metric('varve_cache_writes_total{tier="redis"}') === 1,
    'the entry is written to Redis'
  )
})

t.test('responses stored while Redis was down are on every replica once it is back', async t => {
  const redis = await startRedis(t)
  const sandbox = await startSandbox({ blockMs: 0 })
  t.teardown(async () => {
    await sandbox.close()
  })
  const change = { cache: { redis: { url: redis.url, timeoutMs: 1000 } } }
  const a = await varveAt(t, sandbox.url, change)
  await redis.kill()
  const versions = Array.from({ length: 30 }, (_, step) => 2000 + step)
  for (const version of versions) {
    t.equal((await a.get(modules(version))).headers[status], 'varve; fwd=uri-miss; fwd-status=200; stored')
  }
  const { firstVersion, lastVersion } = sandbox.ledger.block(500)
  await a.get(`/v1/blocks/by_version/${firstVersion}`)
  t.equal(await a.metric('varve_cache_writes_total{tier="redis"}'), 0)
  await redis.start()
  await until(
    async () => await a.metric('varve_cache_writes_total{tier="redis"}') === 31,
    'all entries are written to Redis'
  )
  const b = await varveAt(t, sandbox.url, change)
  sandbox.requests.reset()
  for (const version of versions) t.equal((await b.get(modules(version))).headers[status], 'varve; hit; detail=redis')
  t.equal((await b.get(`/v1/blocks/by_version/${lastVersion}`)).headers[status], 'varve; hit; detail=redis')
  t.equal(sandbox.requests.countFor('account_modules') + sandbox.requests.countFor('block_by_version'), 0)
})

t.test('after a long outage Redis gets the newest writes, up to the queue limit', async t => {
  const redis = await startRedis(t)
  const store = await openRedisTier(t, redis.url)
  await redis.kill()
  await until(() => !store.link.isUp, 'Redis is known to be down')
  for (let nth = 0; nth < 2100; nth++) {
    store.put({ stored: storedEntryOf(`key ${nth}`, `body ${nth}`), ttlMs: undefined })
  }
  t.equal(store.queued, 2000)
  t.match(store.warnings, [/^Redis unreachable: /])
  await redis.start()
  await until(() => store.counts.written === 2000, 'the queued writes are done')
  t.equal(await redis.client.dbsize(), 2000)
  for (const [nth, isThere] of [[0, 0], [99, 0], [100, 1], [2099, 1]] as const) {
    t.equal(await redis.client.exists(`varve:1:key ${nth}`), isThere, `entry ${nth}`)
  }
  t.same(store.warnings, [])
})

t.test('a write error of Redis is reported, reads go on, and recovery is reported too', async t => {
  const redis = await startRedis(t, { maxmemoryPolicy: 'noeviction' })
  const sandbox = await startSandbox({ blockMs: 0 })
  t.teardown(async () => {
    await sandbox.close()
  })
  const a = await varveAt(t, sandbox.url, { cache: { redis: { url: redis.url, timeoutMs: 1000 } } })
  const degraded = async (): Promise<string> => (await sendRequest(a.adminUrl, '/readyz')).body
  await a.get(modules(2000))
  await until(
    async () => await a.metric('varve_cache_writes_total{tier="redis"}') === 1,
    'the entry is written to Redis'
  )
  t.notMatch(await degraded(), 'Redis rejects writes:')
  await redis.client.config('SET', 'maxmemory', '1')
  for (const version of [2001, 2002]) t.equal((await a.get(modules(version))).status, 200)
  await until(async () => /Redis rejects writes: OOM/.test(await degraded()), 'the rejection is reported')
  await until(
    async () => (await a.metric('varve_redis_errors_total{operation="set"}') ?? 0) >= 6,
    'each write was tried three times'
  )
  t.equal(await a.metric('varve_redis_up'), 1, 'reads still use Redis')
  await redis.client.config('SET', 'maxmemory', '64mb')
  await until(async () => {
    await a.get(modules(2003))
    return !(await degraded()).includes('Redis rejects writes:')
  }, 'the end of the rejection is reported')
  t.same((await redis.client.keys('*modules*')).map(key => /ledger_version=(\d+)/.exec(key)?.[1]).sort(), [
    '2000',
    '2003'
  ])
})

t.test('nothing is read or written before replicas agree on a generation; queued writes follow', async t => {
  const redis = await startRedis(t)
  let isAgreed = false
  const store = await openRedisTier(t, redis.url, { isAgreed: () => isAgreed })
  const other = await openRedisTier(t, redis.url)
  other.put({ stored: storedEntryOf('there', 'x'), ttlMs: undefined })
  await other.waitUntilIdle()
  store.put({ stored: storedEntryOf('key', 'x'), ttlMs: undefined })
  t.equal(await store.get({ by: 'key', keys: { value: 'there', text: 'there', intervalFamily: undefined } }), undefined)
  t.same([await redis.client.exists('varve:1:key'), store.queued], [0, 1])
  isAgreed = true
  store.resumeWrites()
  await store.waitUntilIdle()
  t.same([await redis.client.exists('varve:1:key'), store.queued], [1, 0])
  t.ok(await store.get({ by: 'key', keys: { value: 'there', text: 'there', intervalFamily: undefined } }))
})
