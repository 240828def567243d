import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { type SandboxOptions } from '#sandbox'
import { run } from '../cli/command.js'
import { ask } from '../support/client.js'
import { ended, entriesIn, exported, filled, folderOf, readsOf, sharing } from '../support/moving.js'
import { startRedis } from '../support/redis-server.js'
import { type RedisProcess } from '../support/redis-process.js'
import { control, nodeOf, published } from '../support/replicas.js'
import { fromMemory, fromRedis, status } from '../support/said.js'
import { until } from '../support/until.js'

// One for all that only read it.
const own = exported(t)

const everything = async (redis: RedisProcess): Promise<unknown> => (await redis.client.keys('*')).sort()

t.test('what a varve has kept is served by another over another Redis, byte for byte, and its node is asked for none of it', async t => {
  const [node, first, second] = await Promise.all([nodeOf(t), startRedis(t), startRedis(t)])
  const reads = readsOf(node)
  await filled(t, node, first, reads)
  // Where the path of the events leads is one more.
  const entries = reads.length + 1
  const file = join(folderOf(t), 'chain.varve')
  const out = await run(t, ['export', file, '--redis', first.url, '--json'])
  t.match([out.code, out.err], [0, ''])
  t.match(ended(out.out), {
    event: 'end',
    entries,
    corrupt: 0,
    tooLong: 0,
    share: 1,
    chain: 4,
    generation: 1,
    newestBlock: '998',
    file,
    bytes: readFileSync(file).length
  })
  const into = await run(t, ['import', file, '--redis', second.url, '--json'])
  t.match([into.code, into.err], [0, ''])
  t.match(ended(into.out), {
    event: 'end',
    entries,
    written: entries,
    there: 0,
    purged: 0,
    expired: 0,
    tooLong: 0,
    chain: 4,
    isNew: true
  })
  const varve = await sharing(t, node.url, second)
  node.asked.reset()
  for (const [target, how] of reads) {
    const direct = await ask(node.url, target, how)
    const before = node.asked.total
    const got = await varve.get(target, how)
    t.equal(got.headers[status], fromRedis, target)
    t.same([got.status, got.bytes, got.headers['content-type'], got.headers['x-aptos-cursor']], [
      direct.status,
      direct.bytes,
      direct.headers['content-type'],
      direct.headers['x-aptos-cursor']
    ], target)
    t.equal(node.asked.total, before, `${target} is asked of no node`)
  }
  t.equal(await varve.metric('varve_corrupt_entries_total'), 0)
  const third = await sharing(t, node.url, second)
  for (const block of [205, 206, 207].map(height => node.ledger.block(height))) {
    t.match(
      await third.get(`/v1/blocks/by_version/${block.firstVersion}`),
      { headers: { [status]: fromRedis } },
      'a block is found by each of its versions'
    )
  }
  const [handle, stream] = [
    '/v1/accounts/0x1/events/0x1::block::BlockResource/new_block_events',
    '/v1/accounts/0x1/events/3'
  ]
  for (const path of [handle, stream]) {
    const direct = await ask(node.url, `${handle}?start=305&limit=10`)
    node.asked.reset()
    t.match(await third.get(`${path}?start=305&limit=10`), {
      body: direct.body,
      headers: { [status]: path === handle ? fromRedis : fromMemory }
    }, 'a page by the events that it has, and by either path')
    t.equal(node.asked.total, 0)
  }
  const lives = await Promise.all((await entriesIn(second)).map(async key => await second.client.pttl(key)))
  t.ok(lives.every(ms => ms > 0 && ms <= 2_592_000_000), 'each lives as long as it would have')
  const page = (await entriesIn(second)).find(key => key.includes('/events/3?start=300')) ?? ''
  t.ok(await second.client.pttl(page) <= 3_600_000, 'and a page of events no longer than that')
})

t.test('a file of another chain of the same name is never served, whether its blocks show that or nobody can tell', async t => {
  const { file } = await own
  const node = await nodeOf(t)
  const target = readsOf(node, 1)[0]?.[0] ?? ''
  const cases: Array<[string, SandboxOptions]> = [
    ['a chain that has the same heights', { seed: 2 }],
    ['one whose node has pruned all that the file is known by', {
      seed: 2,
      blocks: 4000,
      prunedBlocks: 2000,
      windowBlocks: 3000
    }]
  ]
  for (const [what, options] of cases) {
    const [redis, other] = await Promise.all([startRedis(t), nodeOf(t, options)])
    t.match(await run(t, ['import', file, '--redis', redis.url]), { code: 0 })
    const before = await entriesIn(redis)
    const varve = await sharing(t, other.url, redis)
    const got = await varve.get(target)
    t.same([got.status, got.body], await ask(other.url, target).then(({ status, body }) => [status, body]), what)
    t.notMatch(got.headers[status], /hit/, what)
    // And whoever comes next finds a generation that is surely of its own chain.
    t.equal((await published(redis)).length, 2, what)
    t.notOk(before.some(key => key.startsWith('varve:1:4.1 ')), 'no replica counts up to the number')
  }
})

t.test('until a node has one of its blocks nothing of a file is served, and then by every replica', async t => {
  const { file } = await own
  const node = await nodeOf(t)
  const redis = await startRedis(t)
  t.match(await run(t, ['import', file, '--redis', redis.url]), { code: 0 })
  t.match(await redis.client.hvals(control), [/"isUnproven":true/])
  const dead = await sharing(t, 'http://127.0.0.1:9', redis)
  const [target = ''] = readsOf(node, 1)[0] ?? []
  t.match(await dead.get(target), { status: 503 }, 'no node has been heard')
  const varve = await sharing(t, node.url, redis)
  t.match(await varve.get(target), { headers: { [status]: fromRedis } })
  await until(
    async () => !(await redis.client.hvals(control)).some(text => text.includes('isUnproven')),
    'it is proven for all'
  )
})

t.test('a Redis or a node with another chain of the same name refuses a file, and nothing is written', async t => {
  const { file, redis: source } = await own
  const node = await nodeOf(t)
  const [redis, empty] = await Promise.all([startRedis(t), startRedis(t)])
  const other = await nodeOf(t, { seed: 2, blocks: 1200 })
  await filled(t, other, redis, readsOf(other, 1))
  const before = await everything(redis)
  const refused = async (why: RegExp, ...args: string[]): Promise<void> => {
    t.match(await run(t, ['import', file, '--redis', redis.url, ...args]), { code: 1, out: '', err: why })
  }
  await refused(/^varve: Redis has another chain of the same name, 4: their blocks differ\n$/)
  await refused(/Redis has another chain of the same name/, '--upstream', other.url)
  // Where their heights and positions say nothing, a node does.
  const later = await nodeOf(t, { seed: 2, blocks: 4000, prunedBlocks: 1500, windowBlocks: 3000 })
  const third = await startRedis(t)
  await filled(t, later, third, [])
  t.match(await run(t, ['import', file, '--redis', third.url, '--upstream', node.url]), {
    code: 1,
    err: /^varve: (?:nobody can tell|Redis is of another chain than the node node-1)/
  })
  const whole = await nodeOf(t, { seed: 2, blocks: 4000, windowBlocks: 4000 })
  t.match(await run(t, ['import', file, '--redis', third.url, '--upstream', whole.url]), {
    code: 1,
    err: /^varve: the file is of another chain than the node node-1, which has other blocks at the same heights\n$/
  })
  t.match(await run(t, ['import', file, '--redis', empty.url, '--upstream', other.url]), {
    code: 1,
    err: /^varve: the file is of another chain than the node node-1/
  })
  const foreign = await nodeOf(t, { chainId: 2 })
  t.match(await run(t, ['import', file, '--redis', empty.url, '--upstream', foreign.url]), {
    code: 1,
    err: /the file is of another chain than the node node-1/
  })
  const config = join(folderOf(t), 'varve.yaml')
  writeFileSync(config, `chainId: 2\ncache: { redis: { url: '${empty.url}' } }\n`)
  t.match(await run(t, ['import', file, '--config', config]), {
    code: 1,
    err: /^varve: the file is of chain 4, and the configuration names chain 2\n$/
  })
  t.same([await everything(redis), await everything(empty)], [before, []])
  t.match(await run(t, ['import', file, '--redis', source.url]), {
    code: 0,
    out: /^0 entries.*; 16 were there already/
  }, 'whoever has its newest block needs no node')
})
