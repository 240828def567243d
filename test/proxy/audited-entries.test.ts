import { gunzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { MemoryTier } from '../../src/cache/memory-tier.js'
import { type Entry, type Representation, computeEtag } from '../../src/cache/entry.js'
import { decodeEntry, encodeEntry } from '../../src/cache/entry-codec.js'
import { type AuditResult } from '../../src/proxy/audit.js'
import { type Coding } from '../../src/api/accept.js'
import { releases, type Sandbox } from '#sandbox'
import { type TestRequest, tableItemLookup } from '../support/client.js'
import { startRedis } from '../support/redis-server.js'
import { startSandboxNode, untilWritten } from '../support/replicas.js'
import { cacheStatusHeader } from '../support/cache-status.js'
import { startInFrontOf } from '../support/multiple-upstreams.js'
import { until } from '../support/until.js'
import { type TestVarve, quietConfig, requestEachWorker, varveAt } from '../support/varve.js'

const modules = '/v1/accounts/0x1/modules?ledger_version=2000&limit=2'
const block = '/v1/blocks/by_version/2000'
const events = `/v1/accounts/0x1/events/${
  encodeURIComponent('0x1::block::BlockResource')
}/new_block_events?start=200&limit=5`
const table = '/v1/tables/0x5eed/item?ledger_version=2000'
const everyHit = { audit: { share: 1 } }

/** Serves reads and returns the entry that was stored last. */
async function readerAt (
  t: Test,
  upstream: Sandbox
): Promise<TestVarve & { lastStored: () => Entry, form: (coding: Coding) => Representation }> {
  const { put } = MemoryTier.prototype
  let last: { readonly memory: MemoryTier, readonly entry: Entry } | undefined
  t.teardown(() => {
    MemoryTier.prototype.put = put
  })
  MemoryTier.prototype.put = function (space, entry) {
    last = { memory: this, entry }
    return put.call(this, space, entry)
  }
  const nothing = (): never => {
    throw new Error('nothing was stored')
  }
  return {
    ...await varveAt(t, upstream.url, everyHit),
    lastStored: () => last?.entry ?? nothing(),
    // The memory tier may have replaced the entry since.
    form: coding => last?.memory.latestOf(last.entry)?.encoded[coding] ?? nothing()
  }
}

type Lines = Array<Record<string, unknown>>
type Counted = Pick<TestVarve, 'metric'>

async function untilFound (varve: Counted, result: AuditResult, times = 1): Promise<void> {
  // Audits in flight together may find the same difference.
  await until(
    async () => (await varve.metric(`varve_audit_total{result="${result}"}`) ?? 0) >= times,
    `${times} found ${result}`
  )
}

const differing = (log: Lines): Lines => log.filter(({ part }) => part !== undefined)

t.test('the audit invalidates an entry with a wrong byte in memory, and logs both digests', async t => {
  const upstream = await startSandboxNode(t)
  const varve = await readerAt(t, upstream)
  const reads: Array<[target: string, how?: TestRequest]> = [[modules], [block], [events], [
    table,
    tableItemLookup('u64', '"7"')
  ]]
  for (const [at, [target, options]] of reads.entries()) {
    const truth = await varve.get(target, options)
    // Several hits, so that a memoised response is audited too.
    for (const nth of [1, 2, 3]) {
      t.equal((await varve.get(target, options)).headers[cacheStatusHeader], 'varve; hit; detail=memory')
      await untilFound(varve, 'equal', 3 * at + nth)
    }
    const { body } = varve.lastStored()
    body.writeUInt8(body.readUInt8(10) ^ 1, 10)
    t.not((await varve.get(target, options)).body, truth.body, 'the hit is wrong')
    await untilFound(varve, 'different', at + 1)
    t.match(await varve.get(target, options), { body: truth.body, headers: { [cacheStatusHeader]: /uri-miss/ } })
    const [difference, ...more] = differing(varve.log.splice(0))
    t.match(difference, {
      level: 50,
      part: 'body',
      upstream: 'node',
      cached: /^sha256:[0-9a-f]{64}$/,
      fetched: /^sha256:[0-9a-f]{64}$/
    })
    t.not(difference?.['cached'], difference?.['fetched'])
    t.same(more, [])
  }
})

t.test('the audit finds a wrong byte in a coded form even if the plain body is right', async t => {
  const upstream = await startSandboxNode(t)
  const varve = await readerAt(t, upstream)
  const packed = { headers: { 'accept-encoding': 'gzip' } }
  const truth = await varve.get(modules)
  await until(
    async () => (await varve.get(modules, packed)).headers['content-encoding'] === 'gzip',
    'the hit is compressed'
  )
  const { body } = varve.form('gzip')
  body.writeUInt8(body.readUInt8(body.length - 9) ^ 1, body.length - 9)
  await varve.get(modules, packed)
  await untilFound(varve, 'different')
  t.match(differing(varve.log), [{ level: 50, part: 'gzip' }])
  const { bytes, headers } = await varve.get(modules, packed)
  t.same(headers['content-encoding'] === 'gzip' ? gunzipSync(bytes) : bytes, truth.bytes)
})

t.test('a wrong byte in Redis is found, deleted there, and invalidated at every replica', async t => {
  const upstream = await startSandboxNode(t)
  const redis = await startRedis(t)
  const shared = { cache: { redis: { url: redis.url } } }
  const first = await varveAt(t, upstream.url, shared)
  const truth = await first.get(modules)
  await untilWritten(first, 1)
  const [name = ''] = (await redis.client.keys('varve:1:*')).filter(key => key.includes('/modules'))
  const stored = await decodeEntry(
    name.slice('varve:1:'.length),
    await redis.client.getBuffer(name) ?? Buffer.alloc(0)
  )
  const body = Buffer.from(stored.body)
  body.writeUInt8(body.readUInt8(30) ^ 1, 30)
  // Writes the entry with a valid checksum, as an attacker with access to Redis could.
  await redis.client.set(name, await encodeEntry({ ...stored, body, etag: computeEtag(stored.contentType, body) }))
  const second = await varveAt(t, upstream.url, { ...shared, ...everyHit })
  const third = await varveAt(t, upstream.url, shared)
  for (const varve of [third, second]) {
    t.match(await varve.get(modules), {
      body: body.toString(),
      headers: { [cacheStatusHeader]: 'varve; hit; detail=redis' }
    })
  }
  await untilFound(second, 'different')
  await until(
    async () => String((await third.get(modules)).headers[cacheStatusHeader]).includes('uri-miss'),
    'the replica without audit has invalidated it'
  )
  for (const varve of [second, third]) t.equal((await varve.get(modules)).body, truth.body)
  t.match(differing(second.log), [{ level: 50, part: 'body', cached: /^sha256:/, fetched: /^sha256:/ }])
  t.notMatch(
    await redis.client.getBuffer(name).then(async value =>
      value && (await decodeEntry(name.slice('varve:1:'.length), value)).body.toString()
    ),
    body.toString()
  )
})

t.test('a listing that another upstream returns longer counts as rendering, not as a fault', async t => {
  const transactions = { transactionsDefault: 10, transactionsMax: 50 }
  const less = { transactionsDefault: 5, transactionsMax: 20 }
  const [json, inBcs] = ['application/json', 'application/x-bcs']
  type Row = readonly [nodes: ReadonlyArray<Parameters<typeof startSandboxNode>[1]>, target: string, accept: string]
  const rows: readonly Row[] = [
    ...[json, inBcs].flatMap((accept): Row[] => [
      [[{ modulesPage: 2 }, { modulesPage: 5 }], '/v1/accounts/0x1/modules?ledger_version=2000', accept],
      [[{ resourcesPage: 2 }, { resourcesPage: 4 }], '/v1/accounts/0x1/resources?ledger_version=2000', accept]
    ]),
    [[less, transactions, transactions], '/v1/transactions?start=2000', json],
    [[less, transactions, transactions], '/v1/transactions?start=2000&limit=100', json]
  ]
  for (const [nodes, target, accept] of rows) {
    const upstreams = await Promise.all(nodes.map(async options => await startSandboxNode(t, options)))
    const { varve } = await startInFrontOf(t, upstreams, everyHit)
    const found = async (result: string): Promise<number> =>
      await varve.metric(`varve_audit_total{result="${result}"}`) ?? 0
    await until(async () => {
      await varve.get(target, { headers: { accept } })
      return await found('rendering') + await found('different') > 0
    }, 'the audit has compared two upstreams')
    t.equal(await found('different'), 0, `${target} ${accept}`)
    t.match(differing(varve.log)[0], { level: 40, part: 'body' }, target)
  }
})

t.test('a rendering is compared only with the same release, everything else with any release', async t => {
  const upstream = await startSandboxNode(t, { release: releases.events })
  const { varve } = await startInFrontOf(
    t,
    [upstream, await startSandboxNode(t, { release: releases.variants })],
    everyHit
  )
  await until(async () => await varve.metric('varve_upstream_up{upstream="n2"}') === 1, 'the second upstream is up')
  const target = '/v1/accounts/0x42/modules?ledger_version=2000'
  await varve.get(target)
  for (const nth of [1, 2, 3, 4]) {
    await varve.get(target)
    await untilFound(varve, 'equal', nth)
  }
  t.same(differing(varve.log), [])
})

t.test('an upgrade that varve has not noticed yet counts as rendering, not as a fault', async t => {
  const upstream = await startSandboxNode(t, { release: releases.events })
  const varve = await varveAt(t, upstream.url, everyHit)
  const target = '/v1/accounts/0x42/modules?ledger_version=2000'
  const before = await varve.get(target)
  upstream.ledger.release = releases.variants
  t.match(await varve.get(target), { body: before.body, headers: { [cacheStatusHeader]: 'varve; hit; detail=memory' } })
  await untilFound(varve, 'rendering')
  t.equal(await varve.metric('varve_audit_total{result="different"}'), 0)
  t.not((await varve.get(target)).body, before.body, 'it is read again')
})

t.test('without a free slot or the version upstream, an audit is unavailable and hits go on', async t => {
  const upstream = await startSandboxNode(t)
  const varve = await varveAt(t, upstream.url, { ...everyHit, upstream: { maxConcurrent: 1 } })
  await varve.get(modules)
  const hold = upstream.faults.hold('estimate_gas_price')
  const pending = varve.get('/v1/estimate_gas_price')
  await hold.arrived
  t.equal((await varve.get(modules)).headers[cacheStatusHeader], 'varve; hit; detail=memory')
  await untilFound(varve, 'unavailable')
  hold.release()
  await pending
  upstream.ledger.grow(1)
  upstream.ledger.pruneTo(600)
  await varve.get('/v1/estimate_gas_price?x=1')
  await varve.get('/v1/accounts/0x1/modules')
  t.equal((await varve.get(modules)).headers[cacheStatusHeader], 'varve; hit; detail=pruned')
  await untilFound(varve, 'unavailable', 2)
  const recent = modules.replace('2000', String(upstream.ledger.block(700).firstVersion))
  await varve.get(recent)
  await upstream.close()
  t.equal((await varve.get(recent)).headers[cacheStatusHeader], 'varve; hit; detail=memory')
  await untilFound(varve, 'unavailable', 3)
  t.equal(await varve.metric('varve_audit_total{result="equal"}'), 0)
})

t.test('an entry that one worker process finds wrong is invalidated in the others', async t => {
  // Sends a wrong body to the first read of each worker only.
  const upstream = await startSandboxNode(t)
  upstream.faults.add({ kind: 'body', body: '[1]', match: 'account_modules', times: 2 })
  const varve = await varveAt(t, upstream.url, { ...quietConfig, audit: { share: 0.1 }, workers: 2 })
  await requestEachWorker(varve, modules)
  await until(async () => (await varve.get(modules)).body !== '[1]', 'one worker has found the wrong entry')
  // One process audits a hit; the others are notified.
  await until(
    async () =>
      (await Promise.all([1, 2, 3, 4].map(async () => (await varve.get(modules)).body))).every(body => body !== '[1]'),
    'no worker serves the wrong entry'
  )
  await untilFound(varve, 'different')
})
