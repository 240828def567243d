import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { ask } from '../support/client.js'
import { encodeStored } from '../../src/cache/stored.js'
import { seal } from '../../src/cluster/seal.js'
import { run, start } from '../cli/command.js'
import { folderOf, readsOf } from '../support/moving.js'
import { startCluster } from '../support/redis-cluster.js'
import { startRedis } from '../support/redis-server.js'
import { control, nodeOf } from '../support/replicas.js'
import { fromRedis, status } from '../support/said.js'
import { storedOf } from '../support/shared-store.js'
import { until } from '../support/until.js'
import { varveAt } from '../support/varve.js'

t.test('a cache moves from a cluster with a password and TLS to a single Redis, and back into another cluster', async t => {
  const [node, first, single, second] = await Promise.all([
    nodeOf(t),
    startCluster(t, { password: 's3cret', tls: true }),
    startRedis(t),
    startCluster(t)
  ])
  const folder = folderOf(t)
  const configOf = (name: string, redis: string): string => {
    const file = join(folder, `${name}.yaml`)
    writeFileSync(file, `upstreams: [{ url: '${node.url}' }]\ncache: { redis: ${redis} }\n`)
    return file
  }
  const ca = join(first.node(0).folder, 'certificate.pem')
  const configs = {
    first: configOf(
      'first',
      `{ cluster: [${
        first.hosts.map(host => `'${host}'`).join(', ')
      }], password: s3cret, tls: true, caFile: '${ca}', keyPrefix: 'team_a' }`
    ),
    single: configOf('single', `{ url: '${single.url}', keyPrefix: moved }`),
    second: configOf('second', `{ cluster: [${second.hosts.map(host => `'${host}'`).join(', ')}] }`)
  }
  const reads = readsOf(node)
  const filling = await varveAt(t, node.url, {
    cache: {
      redis: { cluster: first.hosts, password: 's3cret', tls: true, caFile: ca, keyPrefix: 'team_a', timeoutMs: 5000 }
    }
  })
  await until(
    async () => (await first.client.hget('team_a:1:control 4', 'g1'))?.includes('"height"') === true,
    'the chain is known by blocks'
  )
  for (const [target, how] of reads) await filling.get(target, how)
  await until(
    async () => await filling.metric('varve_cache_writes_total{tier="redis"}') === reads.length,
    'all is shared'
  )
  await filling.stop({ drainMs: 0 })
  const [a, b] = [join(folder, 'a.varve'), join(folder, 'b.varve')]
  t.match(await run(t, ['export', a, '--config', configs.first]), {
    code: 0,
    err: '',
    out: new RegExp(`^${reads.length + 1} entries`)
  })
  t.match(await run(t, ['import', a, '--config', configs.single]), {
    code: 0,
    err: '',
    out: new RegExp(`^${reads.length + 1} entries`)
  })
  t.match(await run(t, ['export', b, '--config', configs.single]), {
    code: 0,
    err: '',
    out: new RegExp(`^${reads.length + 1} entries`)
  })
  t.match(await run(t, ['import', b, '--config', configs.second]), {
    code: 0,
    err: '',
    out: new RegExp(`^${reads.length + 1} entries`)
  })
  const varve = await varveAt(t, node.url, { cache: { redis: { cluster: second.hosts, timeoutMs: 5000 } } })
  await until(
    async () => (await ask(varve.adminUrl, '/readyz')).body.includes('"degraded":[]'),
    'it is settled with the others which entries are read'
  )
  node.asked.reset()
  for (const [target, how] of reads) t.match(await varve.get(target, how), { headers: { [status]: fromRedis } }, target)
  t.match(node.asked.counts, { block_by_version: undefined, table_item: undefined })
})

// Says at its end how much memory it ever had.
const measured = [
  '--import',
  'data:text/javascript,process.on("exit",()=>process.stderr.write("maxRSS "+process.resourceUsage().maxRSS))',
  join(import.meta.dirname, '../../dist/cli.js')
]

async function program (args: readonly string[]): Promise<{ code: unknown, out: string, megabytes: number }> {
  const child = spawn(process.execPath, [...measured, ...args], { env: {}, stdio: ['ignore', 'pipe', 'pipe'] })
  let [out, err] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text
  })
  const [code] = await once(child, 'close')
  return { code, out: out + err, megabytes: Number(/maxRSS (\d+)/.exec(err)?.[1]) / 1024 }
}

t.test('however large a cache is, an export and an import of it have some of it in memory at a time', async t => {
  const [redis, second] = await Promise.all([startRedis(t, { maxmemory: '1gb' }), startRedis(t, { maxmemory: '1gb' })])
  const { stamped } = storedOf('', '')
  await redis.client.hset(
    control,
    'g1',
    seal({ anchors: [{ height: 90n, hash: `0x${'ab'.repeat(32)}` }], head: stamped })
  )
  const entries = 20_000
  for (let nth = 0; nth < entries; nth++) {
    const key = `4.1 json /v1/accounts/0x1/modules?ledger_version=${nth}`
    const written = redis.client.set(
      `varve:1:${key}`,
      await encodeStored(storedOf(key, randomBytes(20_000))),
      'PX',
      10_000_000
    )
    if (nth % 100 === 0) await written
  }
  const file = join(folderOf(t), 'large.varve')
  const out = await program(['export', file, '--redis', redis.url])
  t.match(out, { code: 0, out: /20 000 entries of chain 4/ })
  t.ok(statSync(file).size > 400_000_000)
  t.ok(out.megabytes < 250, `${out.megabytes} MB`)
  const into = await program(['import', file, '--redis', second.url])
  t.match(into, { code: 0, out: /20 000 entries of chain 4/ })
  t.ok(into.megabytes < 250, `${into.megabytes} MB`)
  t.comment(out, into)
})

t.test('a Redis that goes away for a moment is waited for, and one that stays away ends it with a sentence', async t => {
  const [redis, second] = await Promise.all([startRedis(t), startRedis(t)])
  const { stamped } = storedOf('', '')
  await redis.client.hset(
    control,
    'g1',
    seal({ anchors: [{ height: 90n, hash: `0x${'ab'.repeat(32)}` }], head: stamped })
  )
  for (let nth = 0; nth < 300; nth++) {
    const key = `4.1 json /v1/accounts/0x1/modules?ledger_version=${nth}`
    await redis.client.set(`varve:1:${key}`, await encodeStored(storedOf(key, 'x')))
  }
  const file = join(folderOf(t), 'a.varve')
  t.match(await run(t, ['export', file, '--redis', redis.url]), { code: 0 })
  const importing = start(t, ['import', file, '--redis', second.url, '--rate', '100'])
  await until(async () => await second.client.dbsize() > 20, 'it has begun')
  await second.client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
  t.equal(await importing.code, 0, importing.err())
  const exporting = start(t, ['export', file, '--redis', redis.url, '--rate', '50'])
  await until(() => statSync(file).size > 0, 'it is there')
  await redis.kill()
  t.equal(await exporting.code, 1)
  t.match(exporting.err(), /^varve: Redis does not answer: /)
})
