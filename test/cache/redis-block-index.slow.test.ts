import fc from 'fast-check'
import t, { type Test } from 'tap'
import { RedisBlockIndex } from '../../src/cache/redis-block-index.js'
import { type EntrySelector } from '../../src/cache/tier.js'
import { selectorOf } from '../../src/proxy/look-up.js'
import { keysOf } from '../../src/api/read.js'
import { type Sandbox, startSandbox } from '#sandbox'
import { sendRequest } from '../support/client.js'
import { readOfTarget } from '../support/proxy-context.js'
import { checkAsync, seedTitle } from '../support/properties.js'
import { startRedis } from '../support/redis-server.js'
import { openRedisTier } from '../support/redis-tier.js'
import { respondOk, stamps, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt } from '../support/varve.js'

const highest = 2n ** 64n - 1n
const status = 'cache-status'
const fromRedis = 'varve; hit; detail=redis'
const stored = 'varve; fwd=uri-miss; fwd-status=200; stored'
const at = (version: bigint | number): string => `/v1/blocks/by_version/${version}`
const lookupAt = (version: bigint): EntrySelector => {
  const read = readOfTarget(at(version))
  return selectorOf({ read, keys: keysOf(read, { id: 4, generation: 1 }) })
}
const isIndex = (key: string): boolean => / (?:whole|half) \d+$/.test(key)
const hex = (version: bigint): string => version.toString(16).padStart(16, '0')

interface Block {
  readonly first: bigint
  readonly last: bigint
  readonly height: string
}
const block = (first: bigint, last: bigint, height: bigint | number): Block => ({ first, last, height: String(height) })

const redis = await startRedis(t)
const { client } = redis
const index = new RedisBlockIndex('p:', 100)
const family = '4.1 json blocks'
const add = async (...blocks: Block[]): Promise<void> => {
  for (const one of blocks) await index.add(client, family, one, one.height)
}
const find = async (version: bigint): Promise<Block[]> => [...(await index.find(client, family, version)).blocks]
const isTorn = async (version: bigint): Promise<boolean> => (await index.find(client, family, version)).isIncomplete
t.beforeEach(async () => {
  await client.flushall()
})

t.test('every version of a block leads to it, and neighbouring versions do not', async t => {
  for (
    const { first, last } of [
      block(1000n, 3999n, 1),
      block(1024n, 2047n, 1),
      block(512n, 1535n, 1),
      block(7n, 7n, 1),
      block(0n, 0n, 1),
      block(highest, highest, 1),
      block(highest - 3000n, highest, 1)
    ]
  ) {
    await client.flushall()
    const one = block(first, last, 77)
    await add(one)
    for (let from = first; from <= last; from += 1000n) {
      const versions = Array.from({ length: 1000 }, (_, step) => from + BigInt(step)).filter(version => version <= last)
      const found = await Promise.all(versions.map(async version => await index.find(client, family, version)))
      t.ok(
        found.every(({ blocks: [only, ...more], isIncomplete }) =>
          !isIncomplete && more.length === 0 && only?.height === '77' && only.first === first && only.last === last
        ),
        `${from} of ${first}..${last}`
      )
    }
    for (const version of [first - 1n, last + 1n].filter(beside => beside >= 0n && beside <= highest)) {
      t.same(await find(version), [], `${version} is beside ${first}..${last}`)
    }
  }
})

const edges = fc.constantFrom(0n, 512n, 1024n, 1536n, 10_240n, 2n ** 53n, 2n ** 53n + 512n, 2n ** 63n, highest - 8000n)
const chains = fc.record({
  start: edges,
  step: fc.bigInt(0n, 600n),
  sizes: fc.array(
    fc.oneof(
      { weight: 5, arbitrary: fc.bigInt(1n, 9n) },
      fc.bigInt(1n, 1200n),
      fc.constantFrom(511n, 512n, 513n, 1023n, 1024n, 1025n)
    ),
    { minLength: 1, maxLength: 12 }
  )
})
  .map(({ start, step, sizes }) => {
    let next = start + step
    return sizes.map((size, nth): Block => {
      const one = block(next, next + size - 1n > highest ? highest : next + size - 1n, 100 + nth)
      next = one.last + 1n
      return one
    }).filter(({ first }) => first <= highest)
  })

t.test(`each version of adjacent blocks finds its own, even if an index key is lost (${seedTitle})`, async t => {
  await checkAsync(
    fc.asyncProperty(chains, fc.nat(), fc.nat(), async (blocks, lost, order) => {
      await client.flushall()
      const turned = [...blocks.slice(order % blocks.length), ...blocks.slice(0, order % blocks.length)]
      await add(...turned)
      const keys = (await client.keys('*')).sort()
      await client.del(keys[lost % keys.length] ?? '')
      for (const one of blocks) {
        for (const version of new Set([one.first, one.last, (one.first + one.last) / 2n])) {
          t.same(await find(version), [one], `${version}`)
        }
      }
      for (
        const beside of [(blocks[0]?.first ?? 0n) - 1n, (blocks.at(-1)?.last ?? 0n) + 1n]
      ) {
        if (beside >= 0n && beside <= highest) {
          t.same(await find(beside), [])
        }
      }
    }),
    30
  )
})

t.test('a version in a gap between two stored blocks finds neither', async t => {
  await add(block(100n, 109n, 1), block(120n, 129n, 2))
  t.same(await find(109n), [block(100n, 109n, 1)])
  for (const version of [99n, 110n, 115n, 119n, 130n]) t.same(await find(version), [])
  t.same(await find(120n), [block(120n, 129n, 2)])
})

t.test('versions and heights that differ in their last digit stay distinct, up to the u64 maximum', async t => {
  for (const base of [2n ** 53n, 2n ** 63n, highest - 9n]) {
    const blocks = Array.from(
      { length: 10 },
      (_, step) => block(base + BigInt(step), base + BigInt(step), base + BigInt(step))
    )
    await add(...blocks)
    for (const one of blocks) t.same(await find(one.first), [one])
  }
})

t.test('the index reports a record missing in one of its two cuts, and no other case', async t => {
  await add(block(1000n, 1500n, 1))
  const keys = await client.keys('*')
  t.ok(keys.length >= 3)
  t.equal(await isTorn(1010n), false)
  for (const key of keys) {
    await client.rename(key, 'aside')
    const found = await Promise.all(
      [1000n, 1023n, 1024n, 1500n].map(async version => await index.find(client, family, version))
    )
    t.ok(found.some(({ isIncomplete }) => isIncomplete), key)
    t.ok(found.every(({ blocks: [one] }) => one?.height === '1'), key)
    await client.rename('aside', key)
  }
})

t.test('no command needs two keys, so the index works in a cluster', async t => {
  const commands: string[][] = []
  const monitor = await client.monitor()
  t.teardown(() => {
    monitor.disconnect()
  })
  monitor.on('monitor', (_time: string, command: string[]) => {
    commands.push(command)
  })
  await add(block(1000n, 5000n, 1))
  await find(3000n)
  await index.remove(client, family, block(1000n, 5000n, 1), '1')
  await until(
    () => commands.filter(([name]) => name?.toLowerCase() === 'zrem').length >= 8,
    'eight commands were seen'
  )
  for (const command of commands) t.ok(command.filter(word => word.startsWith('p:')).length <= 1, command.join(' '))
})

t.test('removing a block removes it from the index and leaves its neighbours in the same keys', async t => {
  const blocks = [block(1020n, 1023n, 1), block(1024n, 3000n, 2), block(3001n, 3001n, 3)]
  await add(...blocks)
  await index.remove(client, family, block(1024n, 3000n, 2), '2')
  for (const version of [1024n, 2000n, 3000n]) t.same(await find(version), [])
  t.same([await find(1023n), await find(3001n)], [[blocks[0]], [blocks[2]]])
})

t.test('the index ignores foreign values beside its own records', async t => {
  await add(block(100n, 199n, 1))
  for (const key of await client.keys('*')) {
    await client.zadd(
      key,
      ...[`${hex(120n)}junk`, 'zzz', '', `${hex(120n)}${hex(130n)}`, `${hex(120n)}${hex(130n)}-5`].flatMap(
        record => [0, record]
      )
    )
  }
  t.same(await find(110n), [block(100n, 199n, 1)], 'below the junk')
  t.same(await find(150n), [], 'behind the junk: a miss, never a wrong block')
})

t.test('of blocks that share a version the newer record wins; false records hide no other block', async t => {
  const truth = block(500n, 509n, 50)
  const all = Array.from({ length: 10 }, (_, step) => 500n + BigInt(step))
  for (
    const lie of [
      block(505n, 505n, 9),
      block(500n, 500n, 9),
      block(509n, 509n, 9),
      block(500n, 2000n, 9),
      block(505n, 2000n, 9),
      block(509n, 600n, 99),
      block(0n, 505n, 9),
      block(0n, 3000n, 9),
      block(500n, 509n, 51),
      block(500n, 509n, 49),
      block(500n, 504n, 50)
    ]
  ) {
    await client.flushall()
    await add(lie, truth)
    for (const version of all) {
      t.same(await find(version), [truth], `${version} after the false record ${lie.first}..${lie.last}`)
    }
    for (const beside of [499n, 510n]) t.notMatch(await find(beside), [truth])
    await index.remove(client, family, truth, truth.height)
    if (lie.first >= truth.first) {
      for (const version of all) t.same(await find(version), [], 'nor does it come back without the newer one')
    }
  }
  await add(truth, block(505n, 505n, 9))
  t.same(await find(505n), [block(505n, 505n, 9)])
  t.same(await find(504n), [truth])
})

t.test('an index key has a bounded number of records and always expires', async t => {
  const lies = Array.from({ length: 1200 }, (_, step) => block(BigInt(step), 1100n, step))
  for (const lie of lies) await add(lie)
  const keys = await client.keys('*')
  for (const key of keys) {
    t.ok(await client.zcard(key) <= 1024, key)
    const ttl = await client.ttl(key)
    t.ok(ttl > 0 && ttl <= 100, `${key} expires in ${ttl} s`)
  }
  t.ok(keys.length < 6)
})

t.test('a full index key still finds a block for each of its versions, also one that began before', async t => {
  const ones = Array.from({ length: 1024 }, (_, step) => block(1024n + BigInt(step), 1024n + BigInt(step), 5000 + step))
  const all = [block(900n, 1023n, 1), ...ones, block(2048n, 2100n, 2)]
  await add(...all)
  for (const one of all) t.same(await find(one.first), [one])
  const begun = block(3000n, 3072n, 7)
  const rest = Array.from({ length: 1023 }, (_, step) => block(3073n + BigInt(step), 3073n + BigInt(step), 8000 + step))
  await add(begun, ...rest)
  for (const one of [begun, ...rest]) t.same([await find(one.last), await isTorn(one.last)], [[one], false])
})

t.test('the index rejects blocks wider than the maximum and blocks whose end precedes their start', async t => {
  const { takes } = { takes: (first: bigint, last: bigint) => index.accepts({ first, last }) }
  t.ok(takes(0n, 0n))
  t.ok(takes(highest, highest))
  t.ok(takes(1000n, 1000n + 64n * 1024n))
  t.notOk(takes(1n, 0n))
  t.notOk(takes(0n, 65n * 1024n))
  t.notOk(takes(0n, highest))
  await add(block(1023n, 1023n + 64n * 1024n, 1))
  t.ok((await client.keys('*')).length <= 132, 'the widest accepted block makes no more keys')
})

const isWritten = async (varve: TestVarve, count: number): Promise<void> => {
  await until(
    async () => await varve.metric('varve_cache_writes_total{tier="redis"}') === count,
    `${count} entries are written`
  )
}
const replicas = async (t: Test, url: string, count = 2): Promise<[TestVarve, TestVarve]> => {
  const all: TestVarve[] = []
  for (let nth = 0; nth < count; nth++) {
    all.push(await varveAt(t, url, { cache: { redis: { url: redis.url, timeoutMs: 1000 } } }))
  }
  return all as [TestVarve, TestVarve]
}
const indexKeys = async (): Promise<string[]> => (await client.keys('*')).filter(isIndex).sort()

async function sandboxOf (t: Test, options: Parameters<typeof startSandbox>[0] = {}): Promise<Sandbox> {
  const sandbox = await startSandbox({ blockMs: 0, ...options })
  t.teardown(async () => {
    await sandbox.close()
  })
  return sandbox
}

t.test('one fetch serves a block of 12,000 versions on every replica, for any of its versions', async t => {
  const sandbox = await sandboxOf(t)
  const [a, b] = await replicas(t, sandbox.url)
  const { firstVersion: first, lastVersion: last } = sandbox.ledger.block(500)
  t.equal(last - first, 11_999n)
  sandbox.requests.reset()
  const read = await a.get(at(first + 4321n))
  t.equal(read.headers[status], stored)
  await isWritten(a, 1)
  t.match(await b.get(at(last)), {
    status: 200,
    body: read.body,
    headers: { [status]: fromRedis, etag: read.headers.etag }
  })
  for (const version of [first, first + 6000n, last]) {
    for (const varve of [a, b]) {
      t.match(await varve.get(at(version)), { body: read.body, headers: { [status]: 'varve; hit; detail=memory' } })
    }
  }
  t.equal(sandbox.requests.countFor('block_by_version'), 1)
  const store = await openRedisTier(t, redis.url)
  const shared = new RedisBlockIndex('varve:1:', 1000)
  for (let from = first; from <= last; from += 1000n) {
    const steps = Array.from({ length: 1000 }, (_, step) => from + BigInt(step))
    const led = await Promise.all(steps.map(async version => await shared.find(client, family, version)))
    t.ok(
      led.every(({ blocks, isIncomplete }) => !isIncomplete && blocks.length === 1 && blocks[0]?.height === '500'),
      `every version from ${from} on finds it`
    )
    const found = await Promise.all(
      steps.filter((_, step) => step % 20 === 0).map(async version => await store.get(lookupAt(version)))
    )
    t.ok(found.every(one => one?.stored.body.toString() === read.body), `and many are read from ${from} on`)
  }
  for (const version of [first - 1n, last + 1n]) {
    t.equal(await store.get(lookupAt(version)), undefined)
    t.equal((await b.get(at(version))).headers[status], stored, 'versions beside it were never read')
  }
})

t.test('losing any or all keys of the index costs one fetch at most and no data', async t => {
  const sandbox = await sandboxOf(t)
  const [a] = await replicas(t, sandbox.url, 1)
  const { firstVersion: first, lastVersion: last } = sandbox.ledger.block(500)
  const { body } = await a.get(at(first))
  await isWritten(a, 1)
  const keys = await indexKeys()
  t.ok(keys.length >= 24 && keys.length <= 26, `${keys.length} keys of the index`)
  const store = await openRedisTier(t, redis.url)
  const versions = Array.from({ length: 30 }, (_, step) => first + 400n * BigInt(step)).concat(last)
  const serves = async (what: string): Promise<void> => {
    const found = await Promise.all(versions.map(async version => await store.get(lookupAt(version))))
    t.ok(found.every(one => one?.stored.body.toString() === body), what)
  }
  // Sends all requests at once, so that none waits for a key that another request restores.
  for (const key of keys) {
    await client.rename(key, 'aside')
    await serves(`without ${key}`)
    await client.rename('aside', key)
  }
  for (const key of keys) {
    await client.del(key)
    await serves(`after ${key} went too`)
    await until(async () => await client.exists(key) === 1, 'the read that found it torn has repaired it')
  }
  t.same(await indexKeys(), keys)
  sandbox.requests.reset()
  await client.del(...keys)
  const [b, c] = await replicas(t, sandbox.url)
  t.match(await b.get(at(last)), { body, headers: { [status]: stored } })
  await isWritten(b, 1)
  t.match(await c.get(at(first)), { body, headers: { [status]: fromRedis } })
  t.equal(sandbox.requests.countFor('block_by_version'), 1)
  t.same(await indexKeys(), keys)
})

t.test('a block evicted while the index still leads to it is fetched once and shared again', async t => {
  const sandbox = await sandboxOf(t)
  const [a, b] = await replicas(t, sandbox.url)
  const { firstVersion: first, lastVersion: last } = sandbox.ledger.block(500)
  const { body } = await a.get(at(first))
  await isWritten(a, 1)
  await client.del(...(await client.keys('*blocks*')).filter(key => !isIndex(key)))
  sandbox.requests.reset()
  t.match(await b.get(at(last)), { body, headers: { [status]: stored } })
  await isWritten(b, 1)
  const [c] = await replicas(t, sandbox.url, 1)
  t.match(await c.get(at(first)), { body, headers: { [status]: fromRedis } })
  t.equal(sandbox.requests.countFor('block_by_version'), 1)
  t.equal(await c.metric('varve_corrupt_entries_total'), 0, 'an evicted entry is not damaged')
})

t.test('blocks with and without transactions, in JSON and in BCS, are separate entries in Redis', async t => {
  const sandbox = await sandboxOf(t)
  const { firstVersion: first, lastVersion: last } = sandbox.ledger.block(452)
  const forms = ['', '?with_transactions=true'].flatMap(query =>
    ['application/json', 'application/x-bcs'].map(accept => ({ query, how: { headers: { accept } } }))
  )
  for (const shared of forms) {
    await client.flushall()
    const [a, b] = await replicas(t, sandbox.url)
    const direct = await sendRequest(sandbox.url, at(last) + shared.query, shared.how)
    await a.get(at(first) + shared.query, shared.how)
    await isWritten(a, 1)
    for (const form of forms) {
      const got = await b.get(at(last) + form.query, form.how)
      t.equal(got.headers[status], form === shared ? fromRedis : stored)
      if (form === shared) {
        t.same([got.bytes, got.headers['content-type']], [direct.bytes, direct.headers['content-type']])
      }
    }
    await isWritten(b, 3)
  }
})

t.test('varve serves a block wider than the maximum, and shares neither it nor its index', async t => {
  const body = (height: number, first: number, last: number): string =>
    JSON.stringify({
      block_height: String(height),
      block_hash: '0xab',
      block_timestamp: '5',
      first_version: String(first),
      last_version: String(last),
      transactions: null
    })
  const wide = { 'x-aptos-ledger-version': '10000000' }
  const stub = await startStubUpstream(t, (request, response) => {
    respondOk(
      response,
      request.url?.endsWith('/5000000') === true ? body(50, 100, 9_000_000) : body(51, 9_500_000, 9_500_000 + 60_000),
      wide
    )
  }, (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', ...stamps(wide) }).end('{"git_hash":"aaaa"}')
  })
  const [a, b] = await replicas(t, stub.url)
  t.match((await a.get(at(5_000_000))).headers, { [status]: stored }, 'cached in memory')
  t.match((await a.get(at(9_500_007))).headers, { [status]: stored })
  await isWritten(a, 1)
  t.same((await client.keys('*blocks*')).filter(key => !isIndex(key)).map(key => key.slice(-3)), [' 51'])
  t.ok((await indexKeys()).length < 125)
  t.match((await b.get(at(5_000_000))).headers, { [status]: stored })
  t.match((await b.get(at(9_560_000))).headers, { [status]: fromRedis })
})

t.test('replicas find a block at the far end of the u64 range and do not confuse its neighbours', async t => {
  const head = highest
  const at64 = {
    'x-aptos-ledger-version': String(head),
    'x-aptos-ledger-oldest-version': String(2n ** 53n),
    'x-aptos-block-height': String(highest)
  }
  const blocks = [
    block(2n ** 53n + 1n, 2n ** 53n + 1n, 50),
    block(2n ** 53n + 2n, 2n ** 53n + 3n, 51),
    block(2n ** 63n - 1n, 2n ** 63n, 60),
    block(head - 4000n, head - 2n, 70),
    block(head - 1n, head - 1n, 2n ** 63n)
  ]
  const stub = await startStubUpstream(t, (request, response) => {
    const version = BigInt(request.url?.split('/').at(-1) ?? '')
    const one = blocks.find(({ first, last }) => first <= version && version <= last)
    if (one === undefined) {
      response.writeHead(404, { 'content-type': 'application/json', ...stamps(at64) }).end(
        '{"message":"none","error_code":"block_not_found","vm_error_code":null}'
      )
    } else {
      respondOk(
        response,
        JSON.stringify({
          block_height: one.height,
          block_hash: '0xab',
          block_timestamp: '5',
          first_version: String(one.first),
          last_version: String(one.last),
          transactions: null
        }),
        at64
      )
    }
  }, (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', ...stamps(at64) }).end('{"git_hash":"aaaa"}')
  })
  const [a, b] = await replicas(t, stub.url)
  for (const { last, height } of blocks) {
    t.match(await a.get(at(last)), { body: `"block_height":"${height}"`, headers: { [status]: stored } })
  }
  await isWritten(a, blocks.length)
  for (const { first, height } of blocks) {
    t.match(await b.get(at(first)), { body: `"block_height":"${height}"`, headers: { [status]: fromRedis } })
  }
  t.equal(stub.requests.filter(target => target.includes('by_version')).length, blocks.length)
})

t.test('one readable cut of the index is enough; the index fails if no cut can be read', async t => {
  await client.flushall()
  await index.add(client, family, { first: 100n, last: 109n }, '7')
  const [one = '', other = ''] = (await client.keys('*')).filter(isIndex)
  await client.set(one, 'of another type')
  t.match(await index.find(client, family, 105n), { blocks: [{ height: '7' }], isIncomplete: false })
  await t.rejects(index.find(client, family, 300n), /WRONGTYPE/)
  await client.set(other, 'of another type')
  await t.rejects(index.find(client, family, 105n), /WRONGTYPE/)
})
