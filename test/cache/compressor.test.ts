import { createHash } from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import zlib, { brotliDecompressSync, gunzipSync } from 'node:zlib'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { Compressor } from '../../src/cache/compressor.js'
import { costOf, type Entry, type EntryParts, type Representation, makeEntry } from '../../src/cache/entry.js'
import { MemoryTier } from '../../src/cache/memory-tier.js'
import { type Coding } from '../../src/api/accept-encoding.js'
import { checkAsync, seedTitle } from '../support/properties.js'

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
  for (const coding of ['br', 'gzip'] as const) {
    const { memory, compressor } = tier()
    const plain = entry(text(5000))
    memory.put(plain)
    const hits = (): Set<Representation> =>
      new Set(Array.from({ length: 1000 }, () => compressor.representationOf(cachedIn(memory), [coding])))
    t.same([...hits()], [plain], 'the uncoded body is served meanwhile')
    t.equal(jobs.length, 1)
    jobs.pop()?.end()
    await compressor.waitUntilIdle()
    t.same([...hits()].map(({ rawHeaders }) => rawHeaders[3]), [coding])
    t.same(jobs, [])
  }
})

t.test('a client without accepted codings gets the uncoded body, and nothing is compressed for it', async t => {
  const jobs = heldZlib(t)
  const { memory, compressor } = tier()
  const plain = entry(text(5000))
  memory.put(plain)
  t.equal(compressor.representationOf(plain, []), plain)
  t.same(jobs, [])
  compressor.representationOf(plain, ['gzip'])
  jobs.pop()?.end()
  await compressor.waitUntilIdle()
  for (const codings of [[], ['br']] as const) {
    t.same(compressor.representationOf(cachedIn(memory), codings).body, plain.body)
  }
  t.same(jobs.map(({ coding }) => coding), ['br'])
  jobs.pop()?.end()
  await compressor.waitUntilIdle()
})

t.test('until the preferred coding is ready, a hit gets the next best coding that is', async t => {
  const jobs = heldZlib(t)
  const { memory, compressor } = tier()
  memory.put(entry(text(5000)))
  const hit = (codings: readonly Coding[]): string | undefined =>
    compressor.representationOf(cachedIn(memory), codings).rawHeaders[3]
  const end = async (): Promise<void> => {
    jobs.pop()?.end()
    await compressor.waitUntilIdle()
  }
  hit(['gzip'])
  t.equal(hit(['br', 'gzip']), '5000', 'one coding of an entry is made at a time')
  t.same(jobs.map(({ coding }) => coding), ['gzip'])
  await end()
  t.same([hit(['br', 'gzip']), hit(['gzip', 'br']), hit(['gzip'])], ['gzip', 'gzip', 'gzip'])
  t.same(jobs.map(({ coding }) => coding), ['br'])
  await end()
  t.same([hit(['br', 'gzip']), hit(['gzip', 'br']), hit(['gzip'])], ['br', 'gzip', 'gzip'])
  t.same(jobs, [])
})

t.test('a coded body decodes to the exact bytes, with its own ETag, length and response headers', async t => {
  for (const coding of ['br', 'gzip'] as const) {
    for (
      const body of [
        text(256),
        text(100_000),
        Buffer.concat([dense(300), Buffer.alloc(300)]),
        Buffer.from(`"${'\u00e9\u2028\ud83d\ude00\\u0000'.repeat(50)}18446744073709551615 "`)
      ]
    ) {
      const { memory, compressor } = tier()
      const plain = entry(body)
      memory.put(plain)
      compressor.representationOf(plain, [coding])
      await compressor.waitUntilIdle()
      const form = compressor.representationOf(cachedIn(memory), [coding])
      t.same(unpack(form), body)
      t.ok(form.body.length < body.length)
      t.equal(form.body.buffer.byteLength, form.body.length, 'retains no larger buffer')
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
      t.equal(form.etag, `${plain.etag.slice(0, -1)}-${coding}"`)
    }
  }
})

t.test('small and incompressible bodies stay uncoded, are not retried and cost no memory', async t => {
  const jobs = heldZlib(t)
  for (const coding of ['br', 'gzip'] as const) {
    const { memory, compressor } = tier()
    const [small, packed] = [entry(text(255), { key: 's' }), entry(dense(5000), { key: 'd' })]
    for (const each of [small, packed]) memory.put(each)
    const { bytes } = memory
    compressor.representationOf(small, [coding])
    t.same(jobs, [])
    compressor.representationOf(packed, [coding])
    jobs.pop()?.end()
    await compressor.waitUntilIdle()
    for (let hit = 0; hit < 10; hit++) {
      t.same(
        compressor.representationOf(cachedIn(memory, 'd'), [coding, coding === 'br' ? 'gzip' : 'br']).rawHeaders,
        packed.rawHeaders
      )
    }
    t.same(jobs, [])
    t.equal(memory.bytes, bytes)
  }
})

t.test('an entry removed during its compression does not return', async t => {
  const jobs = heldZlib(t)
  const clock = { ms: 0 }
  const { memory, compressor } = tier(14_000, clock)
  const old = entry(text(3000), { expiresAtMs: 5 })
  const fates: readonly [string, () => void, Entry | undefined][] = [
    ['evicted', () => {
      memory.put(entry(dense(8000), { key: 'other' }))
    }, undefined],
    ['pushed out by one that does not fit', () => {
      memory.put(entry(dense(20_000)))
    }, undefined],
    ['expired', () => {
      clock.ms = 5
      memory.getByKey('k')
    }, undefined]
  ]
  for (const [fate, cause] of fates) {
    clock.ms = 0
    memory.put(old)
    compressor.representationOf(old, ['br'])
    cause()
    const bytes = memory.bytes
    jobs.pop()?.end()
    await compressor.waitUntilIdle()
    t.equal(memory.getByKey('k'), undefined, fate)
    t.equal(memory.bytes, bytes, fate)
  }
  memory.put(old)
  compressor.representationOf(old, ['br'])
  const fresh = entry(text(4000))
  memory.put(fresh)
  t.equal(compressor.representationOf(fresh, ['br']), fresh)
  jobs.pop()?.end()
  await compressor.waitUntilIdle()
  t.equal(memory.getByKey('k'), fresh, 'nor is the old entry\'s body used for the new entry')
  compressor.representationOf(fresh, ['br'])
  jobs.pop()?.end()
  await compressor.waitUntilIdle()
  t.same(unpack(compressor.representationOf(cachedIn(memory), ['br'])), fresh.body)
})

t.test('a removed entry is not compressed, but its ready codings are still served', async t => {
  const jobs = heldZlib(t)
  const { memory, compressor } = tier(7000)
  const tooLarge = entry(text(6000))
  memory.put(tooLarge)
  t.equal(compressor.representationOf(tooLarge, ['br']), tooLarge)
  t.same(jobs, [])
  const plain = entry(text(2000))
  memory.put(plain)
  compressor.representationOf(plain, ['br'])
  jobs.pop()?.end()
  await compressor.waitUntilIdle()
  const packed = cachedIn(memory)
  memory.put(entry(text(3000)))
  t.equal(compressor.representationOf(packed, ['gzip', 'br']).rawHeaders[3], 'br')
  t.equal(compressor.representationOf(plain, ['br']), plain, 'never the bytes of the new entry')
  t.same(jobs, [])
})

t.test('a reader with the entry from before compression gets its coding without a second one', async t => {
  const jobs = heldZlib(t)
  const { memory, compressor } = tier()
  const plain = entry(text(5000))
  memory.put(plain)
  compressor.representationOf(plain, ['br'])
  jobs.pop()?.end()
  await compressor.waitUntilIdle()
  t.equal(compressor.representationOf(plain, ['br']).rawHeaders[3], 'br')
  t.same(jobs, [])
  compressor.representationOf(plain, ['gzip'])
  jobs.pop()?.end()
  await compressor.waitUntilIdle()
  t.same(Object.keys(cachedIn(memory).encoded), ['br', 'gzip'], 'another coding is added to the first')
})

t.test('a block stays indexed by its versions during and after compression, unless replaced', async t => {
  const jobs = heldZlib(t)
  const { memory, compressor } = tier()
  memory.put(entry(text(5000), block(10n, 19n)))
  memory.put(entry(text(5000), block(20n, 20n)))
  const at = (version: bigint): Entry =>
    memory.get({ by: 'version', family: 'b', version }) ?? cachedIn(memory, `a block of ${version}`)
  for (const coding of ['br', 'gzip'] as const) {
    for (let version = 10n; version < 20n; version++) {
      t.notMatch(compressor.representationOf(at(version), [coding]).rawHeaders[3], coding)
    }
    t.equal(jobs.length, 1)
    jobs.pop()?.end()
    await compressor.waitUntilIdle()
    for (let version = 10n; version < 20n; version++) {
      t.equal(compressor.representationOf(at(version), [coding]).rawHeaders[3], coding)
    }
    t.same(unpack(compressor.representationOf(at(15n), [coding])), text(5000))
    t.equal(at(20n).encoded[coding], undefined, 'its neighbour is another entry')
  }
  t.same([
    memory.get({ by: 'version', family: 'b', version: 9n }),
    memory.get({ by: 'version', family: 'b', version: 21n }),
    memory.entries
  ], [undefined, undefined, 2])
  compressor.representationOf(at(20n), ['br'])
  memory.put(entry(text(5000), { ...block(20n, 29n), key: 'b other' }))
  jobs.pop()?.end()
  await compressor.waitUntilIdle()
  t.equal(at(20n).key, 'b other')
  t.equal(memory.entries, 2)
})

t.test('coded bodies count as memory, and other entries are evicted for them', async t => {
  const body = Buffer.from(dense(2000).toString('hex'))
  const one = costOf(entry(body))
  const { memory, compressor, counts } = tier(3 * one)
  for (const key of ['0', '1', 'k']) memory.put(entry(body, { key }))
  t.equal(memory.bytes, 3 * one)
  compressor.representationOf(cachedIn(memory), ['br'])
  await compressor.waitUntilIdle()
  const packed = cachedIn(memory)
  t.ok(costOf(packed) > one + 2000)
  t.equal(memory.getByKey('0'), undefined, 'the least recently used')
  t.equal(memory.bytes, one + costOf(packed))
  t.same(counts, { evictions: 1, writes: 3 }, 'compression is not a cache write')
})

t.test('an entry that would outgrow the memory tier if coded stays uncoded, without a retry', async t => {
  const jobs = heldZlib(t)
  const body = Buffer.from(dense(20_000).toString('hex'))
  const { memory, compressor } = tier(costOf(entry(body)) + 1000)
  memory.put(entry(body, block(1n, 9n)))
  const { bytes } = memory
  for (const made of [1, 0, 0]) {
    t.equal(
      compressor.representationOf(memory.get({ by: 'version', family: 'b', version: 5n }) ?? cachedIn(memory), ['br'])
        .body.length,
      body.length
    )
    t.equal(jobs.length, made)
    jobs.pop()?.end()
    await compressor.waitUntilIdle()
    t.equal(memory.bytes, bytes)
  }
})

t.test('two compressions run at a time, and rejected ones start at a later hit', async t => {
  const jobs = heldZlib(t)
  const { memory, compressor } = tier()
  const keys = ['0', '1', '2', '3', '4']
  for (const key of keys) memory.put(entry(text(5000), { key }))
  const hitAll = (): number =>
    keys.filter(key => compressor.representationOf(cachedIn(memory, key), ['gzip']).rawHeaders[3] === 'gzip').length
  for (const made of [0, 2, 4]) {
    t.equal(hitAll(), made)
    t.equal(jobs.length, made === 4 ? 1 : 2)
    for (const job of jobs.splice(0)) job.end()
    await compressor.waitUntilIdle()
  }
  t.equal(hitAll(), 5)
})

t.test('after a zlib error the entry stays uncoded and the next hit retries', async t => {
  const jobs = heldZlib(t)
  const { memory, compressor } = tier()
  const plain = entry(text(5000))
  memory.put(plain)
  compressor.representationOf(plain, ['br'])
  jobs.pop()?.end(new Error('no memory left'))
  await compressor.waitUntilIdle()
  t.equal(memory.getByKey('k'), plain)
  t.equal(compressor.representationOf(plain, ['br']), plain)
  jobs.pop()?.end()
  await compressor.waitUntilIdle()
  t.equal(compressor.representationOf(plain, ['br']).rawHeaders[3], 'br')
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
          memory.put(entry(body, { key: each.key }))
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
