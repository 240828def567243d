import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { encodeStored } from '../../../src/cache/stored.js'
import { ExportReader } from '../../../src/tools/moving/export-reader.js'
import { ExportWriter } from '../../../src/tools/moving/export-writer.js'
import { entryKeyOf } from '../../../src/tools/moving/keys.js'
import { type ExportHead, type Moved } from '../../../src/tools/moving/words.js'
import { keysOf, pageKeyOf, pagesOf } from '../../../src/api/read.js'
import { matchEndpoint, readRequest } from '../../../src/api/read-request.js'
import { run, start } from '../../cli/command.js'
import { folderOf } from '../../support/moving.js'
import { startRedis } from '../../support/redis-server.js'
import { storedOf } from '../../support/shared-store.js'

const position = storedOf('', '').stamped
const head: ExportHead = {
  chainId: 4,
  generation: 1,
  begunAtMs: Date.now(),
  anchors: [{ height: 90n, hash: `0x${'ab'.repeat(32)}` }],
  head: position
}
const space = '4.1 json /v1/accounts/0x1/modules?ledger_version='

async function entry (key: string, body: string | Buffer = `"${key}"`, change: Partial<Moved> = {}): Promise<Moved> {
  return { key, ttlMs: 60_000, value: await encodeStored(storedOf(key, body)), ...change }
}

/** An export as a varve would write it. */
async function fileOf (entries: readonly Moved[], change: Partial<ExportHead> = {}): Promise<Buffer> {
  const parts: Buffer[] = []
  const writer = new ExportWriter(async bytes => {
    parts.push(bytes)
  })
  await writer.begin({ ...head, ...change })
  for (const each of entries) await writer.add(each)
  await writer.addPurge({ id: 'a', keys: ['4.1 json x'], blocks: [{ blocks: '4.1 json blocks', version: 7n }] })
  await writer.end()
  return Buffer.concat(parts)
}

/** The same with the digest that belongs to it. */
function sealed (bytes: Buffer): Buffer {
  const content = bytes.subarray(0, -32)
  return Buffer.concat([content, createHash('sha256').update(content).digest()])
}

async function* chunksOf (bytes: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

t.test('what was written is read again, in whatever pieces it comes', async t => {
  const entries = [
    await entry(`${space}1`),
    await entry(`${space}2`, 'x'.repeat(10_000), { ttlMs: undefined }),
    await entry(`${space}3`, Buffer.alloc(100_000, 7))
  ]
  const bytes = await fileOf(entries)
  for (const size of [1, 7, 4096, bytes.length]) {
    const reader = new ExportReader(chunksOf(bytes, size), 1_000_000)
    t.same(await reader.head(), head)
    for (const each of entries) t.same(await reader.next(), { kind: 'entry', entry: each })
    t.match(await reader.next(), { kind: 'purge', purge: { id: 'a' } })
    t.equal(await reader.next(), undefined)
    t.equal(reader.bytes, bytes.length)
  }
})

t.test('cut off anywhere, or with any one byte altered, a file is refused with a sentence', async t => {
  const bytes = await fileOf([await entry(`${space}1`, 'x'.repeat(5000))])
  const read = async (file: Buffer): Promise<void> => {
    const reader = new ExportReader(chunksOf(file, 64), 1_000_000)
    await reader.head()
    while (await reader.next() !== undefined);
  }
  await t.resolves(read(bytes))
  await t.rejects(read(Buffer.alloc(0)), { message: 'the file is empty' })
  for (let length = 1; length < bytes.length; length++) {
    await t.rejects(read(bytes.subarray(0, length)), {
      message: `the file was cut off: it ends after ${length} bytes, before its own end`
    })
  }
  for (let at = 0; at < bytes.length; at++) {
    for (const bit of [1, 128]) {
      const altered = Buffer.from(bytes)
      altered[at] = (altered[at] ?? 0) ^ bit
      await t.rejects(read(altered), {
        message: /^(?:this is no export of varve|the file is damaged|the file was cut off|the file has format 129)/
      }, `byte ${at}`)
    }
  }
  await t.rejects(read(Buffer.concat([bytes, Buffer.from('x')])), {
    message: 'the file is damaged: it goes on after its end'
  })
})

/** Brings bytes in as a file; nothing is to be written. */
async function refused (t: Test, redisUrl: string, bytes: Buffer, why: RegExp): Promise<void> {
  const file = join(folderOf(t), 'bad.varve')
  writeFileSync(file, bytes)
  t.match(await run(t, ['import', file, '--redis', redisUrl]), { code: 1, out: '', err: why }, String(why))
}

t.test('a file that was put together by somebody else is refused before anything is written, whatever it claims', async t => {
  const redis = await startRedis(t)
  const no = async (bytes: Buffer, why: RegExp): Promise<void> => {
    await refused(t, redis.url, bytes, why)
  }
  const good = await fileOf([await entry(`${space}1`)])
  await no(Buffer.from('{"message": "hello"}'), /^varve: this is no export of varve\n$/)
  await no(
    sealed(Buffer.concat([good.subarray(0, 13), Buffer.from([2]), good.subarray(14)])),
    /^varve: the file has format 2, which this varve does not know: bring it in with a newer one\n$/
  )
  await no(
    sealed(Buffer.concat([good.subarray(0, 13), Buffer.from([0]), good.subarray(14)])),
    /damaged: no such format/
  )
  // Lengths of 4 GB where there are a few bytes.
  await no(
    Buffer.concat([good.subarray(0, 14), Buffer.from('ffffffff', 'hex'), good.subarray(18)]),
    /damaged: nothing in it is 4294967295 bytes long/
  )
  const at = good.indexOf(space) - 3
  await no(Buffer.concat([good.subarray(0, at), Buffer.from('01ffff', 'hex'), good.subarray(at + 3)]), /cut off/)
  const lengthAt = good.indexOf(space) + space.length + 1 + 8
  await no(
    Buffer.concat([good.subarray(0, lengthAt), Buffer.from('ffffffff', 'hex'), good.subarray(lengthAt + 4)]),
    /cut off/
  )
  await no(
    sealed(Buffer.concat([good.subarray(0, -40), Buffer.from('00000000000000ff', 'hex'), good.subarray(-32)])),
    /it has 1 entries and claims 255/
  )
  for (
    const key of [
      '4.2 json /v1/x',
      '5.1 json /v1/x',
      '4.1 json blocks whole 5',
      '4.1 xml /v1/x',
      '4.1 json /v2',
      '4.1 json sha256 short',
      'control 4'
    ]
  ) {
    await no(
      await fileOf([await entry(key)]),
      /an entry of it, number 1, is not what was kept under its key \(no key of an entry\)/
    )
  }
  const one = await entry(`${space}1`)
  await no(
    await fileOf([one, { ...one, key: `${space}2` }]),
    /number 2, is not what was kept under its key \(another key\)/
  )
  await no(await fileOf([{ ...one, value: Buffer.from('VRV') }]), /\(another form\)/)
  const strange = { position: { ...position.position, chainId: 5 }, family: 'x-aptos-' }
  await no(
    await fileOf([{ ...one, value: await encodeStored(storedOf(one.key, 'x', { stamped: strange })) }]),
    /\(another chain\)/
  )
  const block = '4.1 json blocks 50'
  const body =
    '{"block_height":"50","block_hash":"0x1","block_timestamp":"1","first_version":"500","last_version":"509","transactions":null}'
  for (
    const [range, height] of [[{ first: 0n, last: 9000n }, 50], [undefined, 50], [
      { first: 500n, last: 509n },
      51
    ]] as const
  ) {
    const key = block.replace('50', String(height))
    await no(
      await fileOf([{ ...one, key, value: await encodeStored(storedOf(key, body, { range })) }]),
      /\(another block\)/
    )
  }
  await no(
    await fileOf([one], { anchors: [] }),
    /the file has no blocks by which its chain could be told from another of its name/
  )
  await no(await fileOf([one], { generation: 0.5 }), /damaged: its head/)
  await no(await fileOf([one], { chainId: 256 }), /damaged: its head/)
  t.same(await redis.client.keys('*'), [])
  const file = join(folderOf(t), 'good.varve')
  writeFileSync(
    file,
    await fileOf([{
      ...one,
      key: block,
      value: await encodeStored(storedOf(block, body, { range: { first: 500n, last: 509n } }))
    }, one])
  )
  t.match(await run(t, ['import', file, '--redis', redis.url]), { code: 0, out: /^2 entries/ })
})

t.test('what is longer than is kept is passed over without room for it, what unpacks to more than that too, and what is over stays out', async t => {
  const redis = await startRedis(t)
  const file = join(folderOf(t), 'long.varve')
  const bomb = await entry(`${space}1`, Buffer.alloc(64 * 1024 * 1024))
  t.ok(bomb.value.length < 100_000)
  const long = { ...await entry(`${space}2`), value: Buffer.alloc(20 * 1024 * 1024) }
  writeFileSync(
    file,
    await fileOf([
      bomb,
      long,
      await entry(`${space}3`, 'over', { ttlMs: 50 }),
      await entry(`${space}4`, 'for ever', { ttlMs: undefined }),
      await entry(`${space}5`)
    ], { begunAtMs: Date.now() - 1000 })
  )
  t.match(await run(t, ['import', file, '--redis', redis.url]), {
    code: 0,
    out: /^2 entries[^]*left out: 1 whose time is over\n {2}left out: 2 that are longer than is kept\n/
  })
  const [four = '', five = ''] = (await redis.client.keys('varve:1:4.* *')).sort()
  t.ok(await redis.client.pttl(four) > 2_591_000_000, 'for as long as this Redis keeps anything')
  t.ok(await redis.client.pttl(five) <= 59_000, 'less what has passed since')
})

t.test('every key that a read can have is known for an entry\'s, and those of the index are not', async t => {
  const chain = { id: 4, generation: 1 }
  const reads: Array<[string, string?]> = [
    ['/v1/blocks/by_version/7'],
    ['/v1/blocks/by_version/7?with_transactions=true'],
    ['/v1/accounts/0x1/modules?ledger_version=5'],
    ['/v1/accounts/0x1/events/0x1::a::B/f?start=5'],
    ['/v1/tables/0x1/item?ledger_version=5', '"7"'],
    ['/v1/tables/0x1/item?ledger_version=5', `"${'7'.repeat(600)}"`]
  ]
  for (const [target, key] of reads) {
    for (const accept of ['application/json', 'application/x-bcs']) {
      const match = matchEndpoint(target, 'GET')
      if (match === undefined) throw new Error(target)
      const keyType = key !== undefined && key.length > 100 ? '0x1::string::String' : 'u64'
      const read = readRequest(match, {
        method: match.endpoint.method,
        accept,
        contentType: 'application/json',
        body: Buffer.from(key === undefined ? '' : `{"key_type":"${keyType}","value_type":"u64","key":${key}}`)
      }, { eventsDefault: 25 } as Parameters<typeof readRequest>[2])
      const keys = keysOf(read, chain)
      const own = keys.blocks === undefined ? [keys.value, keys.text] : [`${keys.blocks} 100`]
      for (const each of own) {
        t.match(entryKeyOf(each, chain), {
          name: each.slice(4),
          block: keys.blocks === undefined ? undefined : { blocks: keys.blocks, height: '100' }
        }, each)
      }
      if (read.page !== undefined) {
        const stream = `4.1 json /v1/accounts/0x${'1'.padStart(64, '0')}/events/3`
        t.match(entryKeyOf(pageKeyOf(stream, read.page), chain), {
          block: undefined,
          page: { stream, first: 5n, last: 29n }
        })
        t.ok(entryKeyOf(pagesOf(chain, read.path), chain), 'where its path leads')
        for (const none of [stream, `${stream}?start=5&limit=0`, `${stream}x?start=5&limit=7`, own[0] ?? '']) {
          t.match(entryKeyOf(none, chain), { page: undefined }, none)
        }
        t.equal(entryKeyOf('4.1 json pages /v1/accounts/0x1/events/3 0', chain), undefined)
      }
      for (const other of [{ id: 4, generation: 2 }, { id: 14, generation: 1 }]) {
        t.equal(entryKeyOf(own[0] ?? '', other), undefined)
      }
      if (keys.blocks !== undefined) {
        for (const cut of ['whole', 'half']) t.equal(entryKeyOf(`${keys.blocks} ${cut} 100`, chain), undefined)
      }
    }
  }
})

t.test('a command line that is not wholly understood ends with 2, and what is not there with 1', async t => {
  const redis = await startRedis(t)
  const folder = folderOf(t)
  const at = ['--redis', redis.url]
  const misused: Array<[string[], RegExp]> = [
    [['export', 'a', 'b', ...at], /export writes one file, not 2; see varve export --help/],
    [['export', '--upstream', 'http://h'], /Unknown option '--upstream'; see varve export --help/],
    [
      ['export', 'a'],
      /no Redis is named: give --redis URL, or --config FILE with the configuration that varve runs with; see varve export --help/
    ],
    [['export', 'a', ...at, '--chain', '256'], /--chain expects a whole number from 0 to 255, got 256/],
    [['export', 'a', ...at, '--rate', '0'], /--rate expects a whole number from 1 to 1000000, got 0/],
    [['export', 'a', '--redis', 'http://h'], /cache\.redis\.url|--redis/],
    [['import', ...at], /import takes one file that varve export has written; see varve import --help/],
    [['import', 'a', 'b', ...at], /import takes one file/],
    [['import', folder, ...at], /import reads its file twice, so it has to be one, and no pipe/],
    [['import', 'a', '--chain', '4'], /Unknown option '--chain'; see varve import --help/]
  ]
  for (const [args, err] of misused) t.match(await run(t, args), { code: 2, out: '', err }, args.join(' '))
  t.match(await start(t, ['export', ...at], { isTerminal: true }).code, 2)
  t.match(await run(t, ['import', join(folder, 'none'), ...at]), { code: 1, err: /none cannot be read: ENOENT/ })
  t.match(await run(t, ['export', join(folder, 'a'), ...at]), {
    code: 1,
    err: /Redis has nothing that replicas of varve share; is it the right one, and the right cache\.redis\.keyPrefix\?/
  })
  t.match(await run(t, ['export', join(folder, 'a'), ...at, '--chain', '7']), {
    code: 1,
    err: /Redis has nothing of chain 7/
  })
  await redis.client.hset('varve:1:control 7', 'g1', 'x')
  await redis.client.hset('varve:1:control 8', 'g1', 'x')
  t.match(await run(t, ['export', join(folder, 'a'), ...at]), {
    code: 2,
    err: /Redis has several chains: name one by --chain 7 or --chain 8; see/
  })
  mkdirSync(join(folder, 'there'))
  t.same(readdirSync(folder), ['there'], 'nothing is left behind')
  for (const command of ['export', 'import']) {
    t.match(await run(t, [command, '--help']), {
      code: 0,
      out: new RegExp(
        `^varve ${command}: [^]*--config FILE[^]*--redis URL[^]*--rate N[^]*--json[^]*\\n  varve ${command} mainnet`
      )
    })
  }
})
