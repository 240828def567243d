import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { exportCache } from '../../src/cli/export.js'
import { importCache } from '../../src/cli/import.js'
import { type Io } from '../../src/app/io.js'
import { writeWhole } from '../../src/tools/moving/whole-file.js'
import { encodeStored } from '../../src/cache/stored.js'
import { seal } from '../../src/cluster/seal.js'
import { run, start } from '../cli/command.js'
import { folderOf } from '../support/moving.js'
import { type RedisProcess } from '../support/redis-process.js'
import { startRedis } from '../support/redis-server.js'
import { control } from '../support/replicas.js'
import { storedOf } from '../support/shared-store.js'
import { until } from '../support/until.js'

const { stamped } = storedOf('', '')
const anchors = [{ height: 90n, hash: `0x${'ab'.repeat(32)}` }]
const keyOf = (nth: number): string => `4.1 json /v1/accounts/0x1/modules?ledger_version=${nth}`

/** Fills a Redis as a varve would have. */
async function fill (redis: RedisProcess, entries: number, length = 100): Promise<void> {
  await redis.client.hset(control, 'g1', seal({ anchors, head: stamped }))
  for (let nth = 0; nth < entries; nth++) {
    await redis.client.set(
      `varve:1:${keyOf(nth)}`,
      await encodeStored(storedOf(keyOf(nth), String(nth).padEnd(length, '.'))),
      'PX',
      100_000
    )
  }
}

t.test('without a FILE it goes to the standard output, and what is said of it to the standard error', async t => {
  const [redis, second] = await Promise.all([startRedis(t), startRedis(t)])
  await fill(redis, 20)
  const file = join(folderOf(t), 'piped.varve')
  for (const args of [[], ['-']]) {
    const { code, out, err } = await run(t, ['export', ...args, '--redis', redis.url])
    t.match([code, err], [0, /^20 entries of chain 4 in \d+ s, [\d.]+ KB\n$/])
    writeFileSync(file, Buffer.from(out, 'latin1'))
    await second.client.flushall()
    t.match(await run(t, ['import', file, '--redis', second.url]), { code: 0, out: /^20 entries/ })
  }
  const broken = {
    environment: {},
    isTerminal: false,
    onSignal: () => {},
    err: () => {},
    out: (_text: unknown, done?: (error: Error) => void) => {
      done?.(new Error('EPIPE'))
    }
  } as unknown as Io
  await t.rejects(exportCache({ redis: redis.url }, [], broken), {
    message: 'the standard output cannot be written: EPIPE'
  })
})

t.test('what is not what was written under its key, and what is too long, is left out and counted; keys of other chains, generations and kinds are not looked at', async t => {
  const redis = await startRedis(t)
  await fill(redis, 3)
  await redis.client.set(`varve:1:${keyOf(0)}`, 'garbage')
  await redis.client.set(`varve:1:${keyOf(4)}`, await encodeStored(storedOf(keyOf(5), 'another key')))
  await redis.client.set(`varve:1:${keyOf(6)}`, await encodeStored(storedOf(keyOf(6), Buffer.alloc(2 * 1024 * 1024))))
  await redis.client.set(`varve:1:${keyOf(7)}`, await encodeStored(storedOf(keyOf(7), 'for ever')))
  for (
    const key of [
      'varve:1:4.2 json /v1/x',
      'varve:1:4.10 json /v1/x',
      'varve:1:5.1 json /v1/x',
      'other:1:4.1 json /v1/x',
      'varve:1:4.1 something else'
    ]
  ) await redis.client.set(key, 'x')
  await redis.client.zadd('varve:1:4.1 json blocks whole 5', 0, 'x')
  const folder = folderOf(t)
  const config = join(folder, 'varve.yaml')
  writeFileSync(config, `chainId: 4\ncache: { maxEntryMb: 1, redis: { url: '${redis.url}' } }\n`)
  const { code, out, err } = await run(t, ['export', join(folder, 'a.varve'), '--config', config])
  t.match([code, err], [0, ''])
  t.match(
    out,
    /^3 entries of chain 4 in \d+ s, [\d.]+ K?B: .*a\.varve\n {2}left out: 2 that are not what was written under their keys\n {2}left out: 1 that is longer than cache\.maxEntryMb\n$/
  )
})

t.test('a chain that is known by no block cannot be told from another, and is not exported', async t => {
  const redis = await startRedis(t)
  await redis.client.hset(control, 'g1', seal({ anchors: [], head: stamped }))
  t.match(await run(t, ['export', '--redis', redis.url]), {
    code: 1,
    out: '',
    err:
      /^varve: nothing is known by which chain 4 could be told from another of its name: have a varve run with a node that serves blocks by height/
  })
})

t.test('Ctrl-C ends an export and leaves nothing behind, and an import that goes on with the same command', async t => {
  const [redis, second] = await Promise.all([startRedis(t), startRedis(t)])
  await fill(redis, 100)
  const folder = folderOf(t)
  const file = join(folder, 'a.varve')
  writeFileSync(file, 'an older one')
  const exporting = start(t, ['export', file, '--redis', redis.url, '--rate', '50'], { isTerminal: true })
  await exporting.saw(/\r\[#+\.+\] +\d+ %, \d+ entries, \d+\/s, [\d.]+ KB, \d+ s left/)
  exporting.signal('SIGINT')
  t.equal(await exporting.code, 1)
  t.equal(exporting.err(), 'varve: ended before all was read; nothing was written\n')
  t.same([readdirSync(folder), readFileSync(file, 'utf8')], [['a.varve'], 'an older one'])
  const piping = start(t, ['export', '--redis', redis.url, '--rate', '50'])
  await until(() => piping.out().length > 3000, 'it has begun')
  piping.signal('SIGTERM')
  t.match([await piping.code, piping.err()], [1, 'varve: ended before all was read: what was written is not whole\n'])
  t.match(await run(t, ['export', file, '--redis', redis.url]), { code: 0 })
  const importing = start(t, ['import', file, '--redis', second.url, '--rate', '50', '--json'])
  await until(async () => (await second.client.keys('varve:1:4.*')).length > 20, 'it has begun')
  importing.signal('SIGINT')
  t.equal(await importing.code, 1)
  t.match(
    importing.err(),
    /^varve: ended before all was brought in; \d+ entries were written and stay: the same command goes on\n$/
  )
  t.match(await run(t, ['import', file, '--redis', second.url]), {
    code: 0,
    out: /^\d+ entries of chain 4 brought in.*; [1-9]\d* were there already/
  })
  t.equal((await second.client.keys('varve:1:4.*')).length, 100)
  let err = ''
  const early = {
    environment: {},
    isTerminal: false,
    out: () => {},
    err: (text: string) => {
      err += text
    },
    onSignal: (_name: string, listener: () => void) => {
      listener()
    }
  } as unknown as Io
  t.match([await importCache({ redis: second.url }, [file], early), err], [
    1,
    /^varve: ended before all was brought in; 0 entries were written/
  ])
})

t.test('a Redis that is not there, wants another password, is full or goes away is told of, and nothing is half done in silence', async t => {
  const [redis, locked, full] = await Promise.all([
    startRedis(t),
    startRedis(t, { password: 'right' }),
    startRedis(t, { maxmemory: '3mb', maxmemoryPolicy: 'noeviction' })
  ])
  await fill(redis, 400, 4000)
  const folder = folderOf(t)
  const file = join(folder, 'a.varve')
  t.match(await run(t, ['export', file, '--redis', redis.url]), { code: 0 })
  for (const command of ['export', 'import']) {
    t.match(await run(t, [command, file, '--redis', 'redis://127.0.0.1:9']), {
      code: 1,
      out: '',
      err: /^varve: Redis does not answer: .*ECONNREFUSED/
    })
    t.match(await run(t, [command, file, '--redis', `redis://:s3cret@${locked.host}`]), {
      code: 1,
      out: '',
      err: /^varve: Redis authentication failed: (?!.*s3cret)WRONGPASS/
    })
    t.match(await run(t, [command, file, '--redis', `redis://${locked.host}`]), {
      code: 1,
      out: '',
      err: /^varve: Redis authentication failed: NOAUTH/
    })
  }
  t.match(await run(t, ['import', file, '--redis', full.url]), {
    code: 1,
    err:
      /^varve: Redis is full: OOM .*; give it more room, or the maxmemory-policy allkeys-lru(?:; \d+ entries were written and stay: the same command goes on)?\n$/
  })
  const [away] = await Promise.all([startRedis(t)])
  const importing = start(t, ['import', file, '--redis', away.url, '--rate', '200'])
  await until(async () => (await away.client.keys('varve:1:4.*')).length > 20, 'it has begun')
  await away.kill()
  await away.start()
  // A server that comes back empty has lost what was claimed there.
  t.equal(await importing.code, 1)
  t.match(
    importing.err(),
    /Redis has lost meanwhile what was known of the chain; \d+ entries were written and stay: the same command goes on/
  )
  t.match(await run(t, ['import', file, '--redis', away.url]), { code: 0, out: /^400 entries|were there already/ })
})

t.test('a file that cannot be written is told of before anything is read', async t => {
  const redis = await startRedis(t)
  await fill(redis, 1)
  const folder = folderOf(t)
  t.match(await run(t, ['export', folder, '--redis', redis.url]), {
    code: 1,
    err: `varve: ${folder} is no file that could be written\n`
  })
  t.match(await run(t, ['export', join(folder, 'none', 'a'), '--redis', redis.url]), {
    code: 1,
    err: /a cannot be written: ENOENT/
  })
  await t.rejects(
    writeWhole(join(folder, 'a'), async () => {
      throw new Error('gone')
    }),
    { message: 'gone' }
  )
  await t.rejects(
    writeWhole(join(folder, 'a'), async () => {
      throw Object.assign(new Error('ENOSPC'), { syscall: 'write' })
    }),
    { message: /a cannot be written: ENOSPC/ }
  )
  t.same(readdirSync(folder), [])
})

t.test('a replica of a Redis can be exported from, so that its master has nothing of it', async t => {
  const master = await startRedis(t)
  await fill(master, 10)
  const replica = await startRedis(t, { replicaOf: master })
  t.match(await run(t, ['export', join(folderOf(t), 'a'), '--redis', replica.url]), { code: 0, out: /^10 entries/ })
})

t.test('what is purged between two looks at the log is forgotten once more, with what was filed of it, and nothing of it comes after', async t => {
  const [redis, second] = await Promise.all([startRedis(t), startRedis(t)])
  await fill(redis, 120)
  const body =
    '{"block_height":"50","block_hash":"0x1","block_timestamp":"1","first_version":"500","last_version":"509","transactions":null}'
  const block = '4.1 json blocks 50'
  await redis.client.set(
    `varve:1:${block}`,
    await encodeStored(storedOf(block, body, { range: { first: 500n, last: 509n } }))
  )
  const file = join(folderOf(t), 'a.varve')
  t.match(await run(t, ['export', file, '--redis', redis.url]), { code: 0 })
  // Replicas of the same chain, which know its newest block, key by another number.
  await second.client.hset(control, 'g7', seal({ anchors, head: stamped }))
  await second.client.lpush('varve:1:purges 4', seal({ id: 'a', keys: [keyOf(0).replace('4.1', '4.7')], blocks: [] }))
  const importing = start(t, ['import', file, '--redis', second.url, '--rate', '60'])
  await until(
    async () => await second.client.exists('varve:1:4.7 json blocks 50') === 1 || await second.client.dbsize() > 70,
    'half is written'
  )
  const keys = Array.from({ length: 120 }, (_, nth) => keyOf(nth).replace('4.1', '4.7'))
  await second.client.lpush(
    'varve:1:purges 4',
    seal({ id: 'b', keys, blocks: [{ blocks: '4.7 json blocks', version: 505n }] })
  )
  t.equal(await importing.code, 0, importing.err())
  t.match(importing.out(), /left out: [1-9]\d* that (?:was|were) purged/)
  t.same((await second.client.keys('varve:1:4.7 *')).filter(key => !/ (?:whole|half|pages) /.test(key)), [])
  const third = await startRedis(t)
  const flooded = start(t, ['import', file, '--redis', third.url, '--rate', '60'])
  await until(async () => await third.client.dbsize() > 20, 'it has begun')
  await third.client.lpush(
    'varve:1:purges 4',
    ...Array.from({ length: 256 }, (_, nth) => seal({ id: `c${nth}`, keys: [], blocks: [] }))
  )
  await third.client.ltrim('varve:1:purges 4', 0, 255)
  t.equal(await flooded.code, 1)
  t.match(flooded.err(), /more than 256 purges came meanwhile/)
})
