import { randomBytes } from 'node:crypto'
import t from 'tap'
import { type Entry, makeEntry } from '../../src/cache/entry.js'
import { MemoryTier } from '../../src/cache/memory-tier.js'
import { Compressor, findCorruptCoding } from '../../src/cache/compressor.js'
import { codings } from '../../src/api/accept-encoding.js'

/** Creates an entry with all its codings. */
async function packed (body: string): Promise<Entry> {
  const memory = new MemoryTier(1e6, { wrote: () => {}, evicted: () => {} }, () => 0)
  const compressor = new Compressor(memory)
  const entry = makeEntry({
    key: 'k',
    status: 200,
    contentType: 'application/json',
    body: Buffer.from(body),
    cursorAndGasHeaders: [],
    release: undefined
  })
  memory.put(entry)
  for (const coding of codings) {
    compressor.representationOf(entry, [coding])
    await compressor.waitUntilIdle()
  }
  return memory.latestOf(entry) ?? entry
}

t.test('a coding that does not decode to the body is reported, and a correct one is not', async t => {
  for (const coding of codings) {
    const entry = await packed('varve '.repeat(200))
    t.equal(await findCorruptCoding(entry), undefined)
    const form = entry.encoded[coding]
    if (form === undefined) throw new Error('not packed')
    const at = form.body.length >> 1
    form.body.writeUInt8(form.body.readUInt8(at) ^ 0x10, at)
    t.equal(await findCorruptCoding(entry), coding)
  }
  const dense = await packed(randomBytes(400).toString('base64').slice(0, 300))
  t.equal(
    await findCorruptCoding({ ...dense, encoded: { br: dense } }),
    undefined,
    'an uncoded body represents itself'
  )
  t.equal(await findCorruptCoding(await packed('short')), undefined)
})

t.test('a coding that decodes to more than the body is wrong, and decoding stops there', async t => {
  const entry = await packed('varve '.repeat(200))
  const bomb = await packed('x'.repeat(900_000))
  for (const coding of codings) {
    t.equal(await findCorruptCoding({ ...entry, encoded: { [coding]: bomb.encoded[coding] ?? bomb } }), coding)
  }
})
