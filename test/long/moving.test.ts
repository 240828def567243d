import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { run, start } from '../cli/command.js'
import { type Ask, ask } from '../support/client.js'
import { entriesIn, exported, readsOf, sharing } from '../support/moving.js'
import { type RedisProcess } from '../support/redis-process.js'
import { startRedis } from '../support/redis-server.js'
import { control, nodeOf, published } from '../support/replicas.js'
import { fromRedis, status } from '../support/said.js'
import { until } from '../support/until.js'

// One for all that only read it.
const own = exported(t)
const everything = async (redis: RedisProcess): Promise<unknown> => (await redis.client.keys('*')).sort()

t.test('brought in once more nothing changes, and what an earlier run did not come to is added, also to the index', async t => {
  const { file } = await own
  const node = await nodeOf(t)
  const redis = await startRedis(t)
  const into = ['import', file, '--redis', redis.url]
  t.match(await run(t, into), {
    code: 0,
    out:
      /^16 entries of chain 4 brought in, in \d+ s, [\d.]+ [KM]B; 0 were there already\n {2}they are served by each varve whose node has one of the blocks that the chain is known by, from 100 to 998\n$/
  })
  const [entries, generations] = [await entriesIn(redis), await published(redis)]
  t.match(await run(t, into), { code: 0, out: /^0 entries of chain 4 brought in.*16 were there already\n/ })
  t.same([await entriesIn(redis), await published(redis)], [entries, generations])
  // As if it had ended between an entry and its place in the index.
  for (const key of await redis.client.keys('varve:1:* whole *')) await redis.client.del(key)
  for (const key of await redis.client.keys('varve:1:* half *')) await redis.client.del(key)
  await redis.client.del(entries[0] ?? '')
  t.match(await run(t, into), { code: 0, out: /^1 entry of chain 4 brought in.*15 were there already\n/ })
  const varve = await sharing(t, node.url, redis)
  for (const [target, how] of readsOf(node, 2)) {
    t.match(await varve.get(target, how), { headers: { [status]: fromRedis } }, target)
  }
})

t.test('a running fleet serves what is brought in at once; that it is of its chain is told by a node that has blocks of both', async t => {
  const { file } = await own
  const node = await nodeOf(t)
  const redis = await startRedis(t)
  node.ledger.grow(30)
  const varve = await sharing(t, node.url, redis, { head: { pollMs: 50 } })
  await until(
    async () =>
      (await published(redis)).length === 1 &&
      (await redis.client.hget(control, 'g1'))?.includes('"height":"1028n"') === true,
    'it is settled'
  )
  await until(async () => (await redis.client.keys('varve:1:upstream *')).length === 1, 'its node is remembered')
  const before = await everything(redis)
  t.match(await run(t, ['import', file, '--redis', redis.url]), {
    code: 1,
    out: '',
    err:
      /^varve: nobody can tell whether the file is of the same chain as what Redis has of chain 4: name a full node by --upstream URL, or a --config FILE with upstreams\n$/
  })
  const pruned = await nodeOf(t, { blocks: 3000, prunedBlocks: 2000, windowBlocks: 3000 })
  t.match(
    await run(t, ['import', file, '--redis', redis.url, '--upstream', pruned.url, '--upstream', 'http://127.0.0.1:9']),
    {
      code: 1,
      out: '',
      err:
        /no node that answers has both block 998, the newest that the file is known by, and one that Redis knows; name one with a longer history/
    }
  )
  t.same(await everything(redis), before, 'nothing was written')
  t.match(await run(t, ['import', file, '--redis', redis.url, '--upstream', node.url]), { code: 0, out: /^16 entries/ })
  node.asked.reset()
  for (const [target, how] of readsOf(node, 2)) {
    t.match(await varve.get(target, how), { headers: { [status]: fromRedis } }, target)
  }
  t.match(node.asked.counts, { block_by_version: undefined, table_item: undefined })
  t.same(await published(redis), ['g1'])
})

const purge = (url: string): Ask => ({
  method: 'POST',
  headers: { authorization: 'Bearer x' },
  body: JSON.stringify({ method: 'GET', url })
})

t.test('what was purged where a file is brought in does not come back by it, be it before that or meanwhile', async t => {
  const { node, file } = await exported(t)
  const redis = await startRedis(t)
  const varve = await sharing(t, node.url, redis, { admin: { listen: '127.0.0.1:0', token: 'x' } })
  await until(async () => (await redis.client.hget(control, 'g1'))?.includes('"height"') === true, 'it is settled')
  const [block = '', modules = ''] = [readsOf(node, 1)[0]?.[0], '/v1/accounts/0x1/modules?ledger_version=2000']
  for (const target of [block, modules]) t.match(await ask(varve.adminUrl, '/purge', purge(target)), { status: 200 })
  t.match(await run(t, ['import', file, '--redis', redis.url, '--upstream', node.url]), {
    code: 0,
    out: /^13 entries[^]*left out: 3 that were purged\n/
  }, 'a block in all its forms')
  for (const target of [block, modules]) t.match(await varve.get(target), { headers: { [status]: /stored$/ } }, target)
  const other = '/v1/accounts/0x1/modules?ledger_version=2000&limit=2'
  const key = `varve:1:4.1 json ${other.replace('0x1', `0x${'1'.padStart(64, '0')}`)}`
  await redis.client.del(key)
  // Slowly enough for a purge to come between.
  const slow = start(t, ['import', file, '--redis', redis.url, '--upstream', node.url, '--rate', '8'])
  await until(async () => await redis.client.exists(key) === 1, 'it is written')
  t.match(await ask(varve.adminUrl, '/purge', purge(other)), { status: 200 })
  // As if it had landed just after that.
  await redis.client.set(key, 'late')
  t.equal(await slow.code, 0, slow.err())
  t.equal(await redis.client.exists(key), 0)
})

t.test('what is purged while it is exported does not come back by the file', async t => {
  const { node, redis, folder } = await exported(t)
  const varve = await sharing(t, node.url, redis, { admin: { listen: '127.0.0.1:0', token: 'x' } })
  const file = join(folder, 'again.varve')
  const hasEntries = (): boolean =>
    readdirSync(folder).some(name => name.endsWith('.part') && statSync(join(folder, name)).size > 500_000)
  const slow = start(t, ['export', file, '--redis', redis.url, '--rate', '10'])
  await until(hasEntries, 'entries were written')
  t.match(await ask(varve.adminUrl, '/purge', purge('/v1/accounts/0x1/modules?ledger_version=2000')), { status: 200 })
  t.equal(await slow.code, 0, slow.err())
  const second = await startRedis(t)
  t.match(await run(t, ['import', file, '--redis', second.url]), {
    code: 0,
    out: /^15 entries[^]*left out: 1 that was purged\n/
  })
  t.same((await entriesIn(second)).filter(key => key.endsWith('/v1/accounts/0x1/modules?ledger_version=2000')), [])
  const all = start(t, ['export', file, '--redis', redis.url, '--rate', '10'])
  await until(hasEntries, 'entries were written')
  t.match(await ask(varve.adminUrl, '/purge', { ...purge(''), body: '{"all":true}' }), { status: 200 })
  t.equal(await all.code, 1)
  t.match(all.err(), /so much was purged meanwhile that nobody can say what: export once more/)
})
