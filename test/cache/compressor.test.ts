import { createHash } from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import zlib, { brotliDecompressSync, gunzipSync } from 'node:zlib'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { Compressor, findCorruptCoding } from '../../src/cache/compressor.js'
import { costOf, type Entry, type EntryParts, type Representation, makeEntry } from '../../src/cache/entry.js'
import { MemoryTier } from '../../src/cache/memory-tier.js'
import { type Coding, codings } from '../../src/api/accept.js'
import { checkAsync, seedTitle } from '../support/properties.js'
import { space } from '../support/redis-tier.js'

const text = (length: number): Buffer =>
  Buffer.from('{"bytecode":"0xa11ceb0b"}'.repeat(Math.ceil(length / 25)).slice(0, length))

// Incompressible bytes, equal in every run.
const dense = (length: number, of = ''): Buffer => createHash('shake256', { outputLength: length }).update(of).digest()

const entry = (body: Buffer, change: Partial<EntryParts> = {}): Entry =>
  makeEntry({
    key: 'k',
    status: 200,
    contentType: 'application/json',
    body,
    cursorAndGasHeaders: ['x-aptos-cursor', '00'],
    release: undefined,
    ...change
  })

const block = (first: bigint, last: bigint): Partial<EntryParts> => ({
  key: `b ${first}`,
  validity: { family: 'b', first, last }
})

function tier (
  maxBytes = 1e6,
  clock = { ms: 0 }
): { memory: MemoryTier, compressor: Compressor, counts: { evictions: number, writes: number } } {
  const counts = { evictions: 0, writes: 0 }
  const memory = new MemoryTier(maxBytes, {
    wrote: () => {
      counts.writes++
    },
    evicted: () => {
      counts.evictions++
    }
  }, () => clock.ms)
  return { memory, compressor: new Compressor(memory), counts }
}

/** Ends the first pending compression and waits until its form is stored. */
async function endNext (jobs: Job[], compressor: Compressor, error?: Error): Promise<void> {
  jobs.pop()?.end(error)
  await compressor.waitUntilIdle()
}

/** Coding of the form that a hit gets, or its length without one. */
const formOf = (memory: MemoryTier, compressor: Compressor, accepted: readonly Coding[], key = 'k'): unknown =>
  compressor.representationOf(cachedIn(memory, key), accepted).rawHeaders[3]

function cachedIn (memory: MemoryTier, key = 'k'): Entry {
  const cached = memory.getByKey(key)
  if (cached === undefined) throw new Error(`nothing is cached under ${key}`)
  return cached
}

function unpack (form: Representation): Buffer {
  switch (form.rawHeaders[form.rawHeaders.indexOf('content-encoding') + 1]) {
    case 'br':
      return brotliDecompressSync(form.body)
    case 'gzip':
      return gunzipSync(form.body)
    default:
      return form.body
  }
}

/** A pending compression of zlib; the test ends it. */
interface Job {
  readonly coding: Coding
  end(error?: Error): void
}

/** Replaces zlib; each compression waits until the test ends it. */
function heldZlib (t: Test): Job[] {
  const jobs: Job[] = []
  const { brotliCompress, gzip } = zlib
  const queue =
    (coding: Coding, real: typeof gzip) =>
    (body: Buffer, options: object, done: (error: Error | null, packed?: Buffer) => void): void => {
      jobs.push({
        coding,
        end: error => {
          if (error === undefined) real(body, options, done)
          else done(error)
        }
      })
    }
  Object.assign(zlib, { brotliCompress: queue('br', brotliCompress), gzip: queue('gzip', gzip) })
  syncBuiltinESMExports()
  t.teardown(() => {
    Object.assign(zlib, { brotliCompress, gzip })
    syncBuiltinESMExports()
  })
  return jobs
}

t.test('a thousand hits with a coding compress the entry once, and none waits for it', async t => {
  const jobs = heldZlib(t)
  for (const coding of codings) {
    const { memory, compressor } = tier()
    const plain = entry(text(5000))
    memory.put(space, plain)
    const hits = (): Set<Representation> =>
      new Set(Array.from({ length: 1000 }, () => compressor.representationOf(cachedIn(memory), [coding])))
    t.same([...hits()], [plain], 'the uncoded body is served meanwhile')
    t.equal(jobs.length, 1)
    await endNext(jobs, compressor)
    t.same([...hits()].map(({ rawHeaders }) => rawHeaders[3]), [coding])
    t.equal(compressor.representationOf(plain, [coding]).rawHeaders[3], coding, 'also with the entry from before')
    t.equal(formOf(memory, compressor, []), '5000', 'a client without codings gets the uncoded body')
    t.same(jobs, [])
  }
})

t.test('until the preferred coding is ready, a hit gets the next best coding that is', async t => {
  const jobs = heldZlib(t)
  const { memory, compressor } = tier()
  memory.put(space, entry(text(5000)))
  const hits = (): unknown[] =>
    ([['br', 'gzip'], ['gzip', 'br'], ['gzip'], []] as const).map(accepted => formOf(memory, compressor, accepted))
  t.equal(formOf(memory, compressor, ['gzip']), '5000')
  t.same(hits(), ['5000', '5000', '5000', '5000'])
  t.same(jobs.map(({ coding }) => coding), ['gzip'], 'one coding of an entry is made at a time')
  await endNext(jobs, compressor)
  t.same(hits(), ['gzip', 'gzip', 'gzip', '5000'])
  t.same(jobs.map(({ coding }) => coding), ['br'])
  await endNext(jobs, compressor)
  t.same(hits(), ['br', 'gzip', 'gzip', '5000'])
  t.same([jobs, Object.keys(cachedIn(memory).encoded).sort()], [[], ['br', 'gzip']])
})

t.test('a coded body decodes to the exact bytes, with its own ETag, length and response headers', async t => {
  const unicode = Buffer.from(`"${'\u00e9\u2028\ud83d\ude00\\u0000'.repeat(50)}18446744073709551615 "`)
  for (const coding of codings) {
    for (const body of [text(256), text(100_000), Buffer.concat([dense(300), Buffer.alloc(300)]), unicode]) {
      const { memory, compressor } = tier()
      const plain = entry(body)
      memory.put(space, plain)
      compressor.representationOf(plain, [coding])
      await compressor.waitUntilIdle()
      const form = compressor.representationOf(cachedIn(memory), [coding])
      t.same(unpack(form), body)
      t.ok(form.body.length < body.length)
      t.equal(form.body.buffer.byteLength, form.body.length, 'retains no larger buffer')
      t.equal(form.etag, `${plain.etag.slice(0, -1)}-${coding}"`)
      t.same(form.rawHeaders, [
        'content-type',
        'application/json',
        'content-encoding',
        coding,
        'content-length',
        String(form.body.length),
        'etag',
        form.etag,
        'x-aptos-cursor',
        '00'
      ])
    }
  }
})

t.test('what a coding cannot help stays uncoded, without a retry and without memory', async t => {
  const jobs = heldZlib(t)
  const hex = Buffer.from(dense(20_000).toString('hex'))
  for (
    const { why, body, maxBytes, attempts } of [
      { why: 'smaller than a header line saves', body: text(255), maxBytes: 1e6, attempts: 0 },
      { why: 'incompressible', body: dense(5000), maxBytes: 1e6, attempts: 1 },
      { why: 'both forms are more than the tier', body: hex, maxBytes: costOf(entry(hex)) + 1000, attempts: 1 },
      { why: 'not in the tier', body: text(6000), maxBytes: 7000, attempts: 0 }
    ]
  ) {
    const { memory, compressor } = tier(maxBytes)
    const plain = entry(body, block(1n, 9n))
    memory.put(space, plain)
    const { bytes } = memory
    for (let hit = 0; hit < 5; hit++) {
      t.same(compressor.representationOf(plain, ['br', 'gzip']).body, body, why)
      t.equal(jobs.length, hit === 0 ? attempts : 0, why)
      await endNext(jobs, compressor)
    }
    t.equal(memory.bytes, bytes)
  }
})

t.test('an entry that leaves during its compression does not return, and no other gets its body', async t => {
  const jobs = heldZlib(t)
  const clock = { ms: 0 }
  const { memory, compressor } = tier(14_000, clock)
  const old = entry(text(3000), { expiresAtMs: 5 })
  const fresh = entry(text(4000))
  const fates: ReadonlyArray<readonly [string, () => void, Entry | undefined]> = [
    ['evicted', () => memory.put(space, entry(dense(8000), { key: 'other' })), undefined],
    ['pushed out by one that does not fit', () => memory.put(space, entry(dense(20_000))), undefined],
    ['expired', () => {
      clock.ms = 5
      memory.getByKey('k')
    }, undefined],
    ['replaced', () => memory.put(space, fresh), fresh]
  ]
  for (const [fate, cause, left] of fates) {
    clock.ms = 0
    memory.put(space, old)
    compressor.representationOf(old, ['br'])
    cause()
    const bytes = memory.bytes
    t.equal(compressor.representationOf(left ?? old, ['br']), left ?? old)
    await endNext(jobs, compressor)
    t.same([memory.getByKey('k'), memory.bytes], [left, bytes], fate)
  }
  compressor.representationOf(fresh, ['br'])
  await endNext(jobs, compressor)
  const packed = cachedIn(memory)
  t.same(unpack(compressor.representationOf(packed, ['br'])), fresh.body)
  memory.put(space, entry(text(3000)))
  t.equal(compressor.representationOf(packed, ['gzip', 'br']).rawHeaders[3], 'br', 'ready codings are still served')
  t.equal(compressor.representationOf(fresh, ['br']), fresh, 'never the bytes of the new entry')
  t.same(jobs, [])
})

t.test('a block stays indexed by its versions during and after compression, unless replaced', async t => {
  const jobs = heldZlib(t)
  const { memory, compressor } = tier()
  for (const [first, last] of [[10n, 19n], [20n, 20n]] as const) {
    memory.put(space, entry(text(5000), block(first, last)))
  }
  const at = (version: bigint): Entry | undefined => memory.covering(space, 'b', version)
  const formsOf = (coding: Coding): unknown[] =>
    [10n, 15n, 19n].map(version => compressor.representationOf(at(version) as Entry, [coding]).rawHeaders[3])
  for (const coding of codings) {
    t.same(formsOf(coding), ['5000', '5000', '5000'])
    await endNext(jobs, compressor)
    t.same([...formsOf(coding), jobs.length], [coding, coding, coding, 0])
  }
  t.same([at(20n)?.encoded, at(9n), at(21n), memory.entries], [{}, undefined, undefined, 2])
  compressor.representationOf(at(20n) as Entry, ['br'])
  memory.put(space, entry(text(5000), { ...block(20n, 29n), key: 'b other' }))
  await endNext(jobs, compressor)
  t.same([at(20n)?.key, memory.entries], ['b other', 2])
})

t.test('coded bodies count as memory, and other entries are evicted for them', async t => {
  const body = Buffer.from(dense(2000).toString('hex'))
  const one = costOf(entry(body))
  const { memory, compressor, counts } = tier(3 * one)
  for (const key of ['0', '1', 'k']) memory.put(space, entry(body, { key }))
  t.equal(memory.bytes, 3 * one)
  compressor.representationOf(cachedIn(memory), ['br'])
  await compressor.waitUntilIdle()
  const packed = cachedIn(memory)
  t.ok(costOf(packed) > one + 2000)
  t.same([memory.getByKey('0'), memory.bytes], [undefined, one + costOf(packed)], 'the least recently used')
  t.same(counts, { evictions: 1, writes: 3 }, 'compression is not a cache write')
})

t.test('two compressions run at a time; rejected and failed ones start again at a later hit', async t => {
  const jobs = heldZlib(t)
  const { memory, compressor } = tier()
  const keys = ['0', '1', '2', '3', '4']
  for (const key of keys) memory.put(space, entry(text(5000), { key }))
  const hitAll = (): number => keys.filter(key => formOf(memory, compressor, ['gzip'], key) === 'gzip').length
  for (
    const [made, started, error] of [[0, 2, undefined], [2, 2, new Error('no memory left')], [2, 2], [4, 1]] as const
  ) {
    t.same([hitAll(), jobs.length], [made, started])
    for (const job of jobs.splice(0)) job.end(error)
    await compressor.waitUntilIdle()
  }
  t.equal(hitAll(), 5)
})

t.test('a coding that decodes to anything but the body is reported, and decoding stops there', async t => {
  const packed = async (body: Buffer): Promise<Entry> => {
    const { memory, compressor } = tier()
    memory.put(space, entry(body))
    for (const coding of codings) {
      compressor.representationOf(cachedIn(memory), [coding])
      await compressor.waitUntilIdle()
    }
    return cachedIn(memory)
  }
  const bomb = await packed(Buffer.alloc(600_000, 'x'))
  for (const coding of codings) {
    const whole = await packed(text(1200))
    t.equal(await findCorruptCoding(whole), undefined)
    t.equal(await findCorruptCoding({ ...whole, encoded: { [coding]: bomb.encoded[coding] ?? bomb } }), coding)
    const { body } = whole.encoded[coding] ?? bomb
    body.writeUInt8(body.readUInt8(body.length >> 1) ^ 0x10, body.length >> 1)
    t.equal(await findCorruptCoding(whole), coding)
  }
  for (const uncoded of [dense(300), text(5)]) t.equal(await findCorruptCoding(await packed(uncoded)), undefined)
})

t.test(`the memory limit holds and every hit has its entry's body, in any sequence (${seedTitle})`, async () => {
  const key = fc.nat(7).map(String)
  const codings = fc.shuffledSubarray<Coding>(['br', 'gzip'])
  const step = fc.oneof(
    fc.record({ do: fc.constant('set' as const), key, isDense: fc.boolean(), length: fc.nat(4000) }),
    fc.record({ do: fc.constant('hit' as const), key, codings }),
    fc.record({ do: fc.constant('hit' as const), key, codings }),
    fc.constant({ do: 'idle' as const })
  )
  await checkAsync(
    fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 60 }), async steps => {
      const maxBytes = 16_000
      const { memory, compressor } = tier(maxBytes)
      const last = new Map<string, Buffer>()
      for (const each of steps) {
        if (each.do === 'set') {
          const body = each.isDense ? dense(each.length, each.key) : text(each.length)
          last.set(each.key, body)
          memory.put(space, entry(body, { key: each.key }))
        } else if (each.do === 'idle') await compressor.waitUntilIdle()
        else {
          const cached = memory.getByKey(each.key)
          if (
            cached !== undefined &&
            !unpack(compressor.representationOf(cached, each.codings)).equals(last.get(each.key) ?? dense(1))
          ) throw new Error('another body')
        }
        if (memory.bytes > maxBytes) throw new Error(`${memory.bytes} bytes`)
      }
      await compressor.waitUntilIdle()
      if (memory.bytes > maxBytes) throw new Error(`${memory.bytes} bytes`)
    }),
    100
  )
})
