import { createHash, randomBytes } from 'node:crypto'
import { crc32, deflateRawSync, inflateRawSync } from 'node:zlib'
import fc from 'fast-check'
import t from 'tap'
import { ByteReader } from '../../src/cache/byte-codec.js'
import { computeEtag } from '../../src/cache/entry.js'
import {
  CorruptEntryError,
  decodeEntry,
  encodeEntry,
  type StoredEntry,
  entryFormat
} from '../../src/cache/entry-codec.js'
import { checkAsync, seedTitle } from '../support/properties.js'

const highest = 2n ** 64n - 1n

const stored = (change: Partial<StoredEntry> = {}): StoredEntry => {
  const { contentType = 'application/json', body = Buffer.from('{"x":"18446744073709551615"}') } = change
  return {
    key: '4.1 json /v1/accounts/0x1/modules?ledger_version=7',
    status: 200,
    contentType,
    body,
    etag: computeEtag(contentType, body),
    release: 'a9b8c7',
    lowestVersion: 2n ** 53n + 1n,
    cursor: '00ab',
    gasUsed: '12',
    validity: { family: '4.1 json', first: highest - 5n, last: highest },
    stamped: {
      position: {
        chainId: 255,
        head: { version: highest, timestampUsec: 1_700_000_000_000_000n, epoch: 9n, blockHeight: 2n ** 63n },
        oldest: { version: 10n, blockHeight: 3n }
      },
      family: 'x-aptos-'
    },
    ...change
  }
}

const bare: Partial<StoredEntry> = {
  release: undefined,
  lowestVersion: undefined,
  cursor: undefined,
  gasUsed: undefined,
  validity: undefined
}
const long = Buffer.from(JSON.stringify(Array.from({ length: 2000 }, (_, at) => ({ at: String(at) }))))

const contentAt = 8

/** Returns the value with the checksum of its changed bytes. */
function resealed (value: Buffer): Buffer {
  const copy = Buffer.from(value)
  copy.writeUInt32BE(crc32(copy.subarray(contentAt)), 4)
  return copy
}

/** Returns the reason why a value is rejected, if any; only its own error may occur. */
async function rejectionOf (key: string, value: Buffer, maxBytes?: number): Promise<string | undefined> {
  try {
    await decodeEntry(key, value, maxBytes)
    return undefined
  } catch (error) {
    if (!(error instanceof CorruptEntryError)) throw error
    return error.message
  }
}

const u8 = (value: number): Buffer => Buffer.from([value])
const u16 = (value: number): Buffer => Buffer.from([value >> 8, value & 0xff])
const u32 = (value: number): Buffer => Buffer.from([value >>> 24, value >> 16 & 0xff, value >> 8 & 0xff, value & 0xff])
const u64 = (value: bigint): Buffer => Buffer.from(value.toString(16).padStart(16, '0'), 'hex')
const text = (value: string): Buffer => Buffer.concat([u16(Buffer.byteLength(value)), Buffer.from(value)])
const digestOf = (key: string): Buffer => createHash('sha256').update(key).digest().subarray(0, 16)

/** Encodes a value by hand, as other releases and programs may rely on the format. */
function byHand (key: string, content: readonly Buffer[]): Buffer {
  const whole = Buffer.concat([digestOf(key), ...content])
  return Buffer.concat([Buffer.from('VRV'), u8(1), u32(crc32(whole)), whole])
}

t.test('the encoding is as documented, member for member', async t => {
  const full = stored()
  t.equal(entryFormat, 1)
  t.same(
    await encodeEntry(full),
    byHand(full.key, [
      u16(200),
      u8(2 + 4 + 8 + 16 + 32 + 64),
      u8(255),
      u64(highest),
      u64(1_700_000_000_000_000n),
      u64(2n ** 63n),
      u64(10n),
      u64(3n),
      u64(9n),
      u64(highest - 5n),
      u64(highest),
      u64(2n ** 53n + 1n),
      text('x-aptos-'),
      text('application/json'),
      text(full.etag),
      text('a9b8c7'),
      text('00ab'),
      text('12'),
      u32(full.body.length),
      full.body
    ])
  )
  const { position } = full.stamped
  const least = stored({
    ...bare,
    status: 404,
    stamped: { family: 'x-node-', position: { ...position, chainId: 0, head: { ...position.head, epoch: undefined } } },
    body: Buffer.alloc(0)
  })
  t.same(
    await encodeEntry(least),
    byHand(least.key, [
      u16(404),
      u8(0),
      u8(0),
      u64(highest),
      u64(1_700_000_000_000_000n),
      u64(2n ** 63n),
      u64(10n),
      u64(3n),
      text('x-node-'),
      text('application/json'),
      text(least.etag),
      u32(0)
    ])
  )
  t.same([
    await decodeEntry(full.key, await encodeEntry(full)),
    await decodeEntry(least.key, await encodeEntry(least))
  ], [full, least])
})

const maybe = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(arbitrary, { nil: undefined })
const u64s = fc.oneof(fc.bigInt(0n, highest), fc.constantFrom(0n, 2n ** 53n, 2n ** 53n + 1n, 2n ** 63n, highest))
// Characters that HTTP allows in a header value.
const headerValues = fc.string({
  unit: fc.integer({ min: 0x20, max: 0xff }).filter(code => code !== 0x7f).map(code => String.fromCharCode(code))
})
const anyStored = fc.record({
  key: fc.string({ unit: 'binary', maxLength: 40 }),
  status: fc.constantFrom<200 | 404>(200, 404),
  contentType: fc.constantFrom('application/json', 'application/x-bcs', 'application/json; charset=utf-8'),
  body: fc.oneof(
    fc.uint8Array({ maxLength: 200 }),
    fc.uint8Array({ maxLength: 50 }).map(part =>
      Uint8Array.from({ length: 200 * part.length }, (_, at) => part[at % part.length] ?? 0)
    )
  ).map(bytes => Buffer.from(bytes)),
  release: maybe(fc.string()),
  lowestVersion: maybe(u64s),
  cursor: maybe(headerValues),
  gasUsed: maybe(headerValues),
  range: maybe(fc.record({ first: u64s, last: u64s })),
  chainId: fc.nat(255),
  head: fc.record({ version: u64s, timestampUsec: u64s, epoch: maybe(u64s), blockHeight: u64s }),
  oldest: fc.record({ version: u64s, blockHeight: u64s }),
  family: fc.constantFrom('x-aptos-', 'x-node-', 'x_y.z-')
}).map(({ chainId, head, oldest, family, key, range, ...rest }): StoredEntry => ({
  ...rest,
  key: range === undefined ? key : `${key} 7`,
  validity: range && { family: key, ...range },
  etag: computeEtag(rest.contentType, rest.body),
  stamped: { position: { chainId, head, oldest }, family }
}))

t.test('an entry whose members cannot be headers is rejected, from any writer', async t => {
  const { stamped } = stored()
  const lines: Array<Partial<StoredEntry>> = [
    ...['a\r\nb: c', 'a\nb', '\0', '\u010d', '\u0100', '\x7f'].flatMap(
      text => [{ cursor: text }, { gasUsed: text }, { contentType: text, etag: computeEtag(text, stored().body) }]
    ),
    ...['', '-', 'x', 'x y-', 'x:-', 'X-A-', 'x-\r\n-', 'x-é-', `${'x'.repeat(101)}-`].map(family => ({
      stamped: { ...stamped, family }
    }))
  ]
  for (const change of lines) {
    const { key } = stored()
    await t.rejects(
      decodeEntry(key, await encodeEntry(stored(change))),
      { message: 'no header lines' },
      JSON.stringify(change.cursor ?? change.gasUsed ?? change.contentType ?? change.stamped?.family)
    )
  }
})

t.test(`every entry decodes to all members that were encoded (${seedTitle})`, async t => {
  await checkAsync(
    fc.asyncProperty(anyStored, async entry => {
      t.same(await decodeEntry(entry.key, await encodeEntry(entry)), entry)
    }),
    300
  )
})

t.test('only bodies above 4 KiB that shrink are compressed, and all decode byte for byte', async t => {
  const noise = randomBytes(20_000)
  const cases: Array<[Buffer, boolean]> = [
    [Buffer.alloc(4096, 'ab'), false],
    [Buffer.alloc(4097, 'ab'), true],
    [long, true],
    [noise, false],
    [Buffer.alloc(3_000_000, 'node'), true]
  ]
  for (const [body, isSmaller] of cases) {
    const entry = stored({ body })
    const value = await encodeEntry(entry)
    const header = (await encodeEntry(stored({ body: Buffer.alloc(0) }))).length
    if (isSmaller) {
      t.ok(value.length < header + body.length / 2, `${body.length} bytes become ${value.length}`)
      t.same(inflateRawSync(value.subarray(header)), body)
    } else t.same(value.subarray(header), body)
    t.same((await decodeEntry(entry.key, value)).body, body)
  }
})

const places = fc.tuple(fc.nat(10_000), fc.nat(10_000))
const inserted = fc.uint8Array({ minLength: 1, maxLength: 64 })
/** Bytes replaced, inserted, removed, or turned around. */
const damage = fc.tuple(fc.constantFrom('replace', 'insert', 'remove', 'turn'), places, inserted).map(
  ([how, [a, b], bytes]) => (value: Buffer): Buffer => {
    const [at = 0, to = 0] = [a % value.length, b % value.length].sort((x, y) => x - y)
    const [before, after] = [value.subarray(0, at), value.subarray(at)]
    switch (how) {
      case 'replace':
        return Buffer.concat([before, bytes, after.subarray(bytes.length)])
      case 'insert':
        return Buffer.concat([before, bytes, after])
      case 'remove':
        return Buffer.concat([before, after.subarray(bytes.length)])
      default:
        return Buffer.concat([value.subarray(to), value.subarray(at, to), before])
    }
  }
)

t.test(`a damaged value is rejected at every bit and length, even if resealed (${seedTitle})`, async t => {
  const entries = [stored(), stored({ body: long }), stored({ ...bare, status: 404, body: Buffer.alloc(0) })]
  const values = await Promise.all(entries.map(async entry => ({ entry, value: await encodeEntry(entry) })))
  for (const { entry: { key }, value } of values) {
    const isRejected = async (bytes: Buffer): Promise<boolean> => await rejectionOf(key, bytes) !== undefined
    for (let length = 0; length < value.length; length++) {
      if (!await isRejected(value.subarray(0, length))) t.fail(`cut at ${length} of ${value.length}`)
      const cut = value.subarray(0, length)
      if (length >= contentAt && !await isRejected(resealed(cut))) t.fail(`cut at ${length} and resealed`)
    }
    for (let bit = 0; bit < value.length * 8; bit++) {
      const copy = Buffer.from(value)
      copy.writeUInt8(copy.readUInt8(bit >> 3) ^ 1 << (bit & 7), bit >> 3)
      if (!await isRejected(copy)) t.fail(`bit ${bit & 7} of byte ${bit >> 3}`)
    }
    for (const more of [u8(0), Buffer.alloc(500), value]) {
      t.equal(await rejectionOf(key, Buffer.concat([value, more])), 'altered')
    }
    t.equal(await rejectionOf(key, value), undefined)
  }
  await checkAsync(
    fc.asyncProperty(
      fc.constantFrom(...values),
      fc.array(damage, { minLength: 1, maxLength: 4 }),
      async ({ entry, value }, harms) => {
        const harmed = harms.reduce((bytes, harm) => bytes.length === 0 ? bytes : harm(bytes), value)
        t.equal(await rejectionOf(entry.key, harmed) === undefined, harmed.equals(value))
      }
    ),
    1000
  )
})

t.test(`decoding arbitrary bytes throws only its own error (${seedTitle})`, async t => {
  const { key } = stored()
  await checkAsync(
    fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), fc.boolean(), async (bytes, isDressed) => {
      const value = isDressed ? byHand(key, [Buffer.from(bytes)]) : Buffer.from(bytes)
      t.type(await rejectionOf(key, value), 'string')
    }),
    1000
  )
})

t.test(`a value is accepted under its own key only (${seedTitle})`, async t => {
  const value = await encodeEntry(stored({ key: '4.1 json /v1/x' }))
  for (const other of ['4.1 json /v1/y', '4.2 json /v1/x', '5.1 json /v1/x', '4.1 bcs /v1/x', '4.1 json /v1/x ', '']) {
    t.equal(await rejectionOf(other, value), 'another key', other)
  }
  await checkAsync(fc.asyncProperty(fc.string(), fc.string(), async (key, other) => {
    const found = await rejectionOf(other, await encodeEntry(stored({ key })))
    t.equal(found, key === other ? undefined : 'another key')
  }))
})

t.test('a value of another format version is rejected, even if complete', async t => {
  const entry = stored()
  const value = await encodeEntry(entry)
  for (const format of [0, 2, 255]) {
    const other = Buffer.from(value)
    other.writeUInt8(format, 3)
    t.equal(await rejectionOf(entry.key, resealed(other)), 'another form', `format ${format}`)
  }
  t.equal(
    await rejectionOf(entry.key, Buffer.from('{"json":"of some other program, which shares this Redis"}')),
    'another form'
  )
})

t.test('a value that cannot be a shared response is rejected despite a correct checksum', async t => {
  const entry = stored({ ...bare, body: Buffer.from('body') })
  const { position: { head, oldest } } = entry.stamped
  const forged = (change: { status?: number, flags?: number, etag?: string, length?: number, body?: Buffer }): Buffer =>
    byHand(entry.key, [
      u16(change.status ?? 200),
      u8(change.flags ?? 64),
      u8(4),
      ...[head.version, head.timestampUsec, head.blockHeight, oldest.version, oldest.blockHeight, 9n].map(u64),
      text('x-aptos-'),
      text(entry.contentType),
      text(change.etag ?? entry.etag),
      u32(change.length ?? 4),
      change.body ?? entry.body
    ])
  const rows: ReadonlyArray<readonly [Parameters<typeof forged>[0], string | undefined, string]> = [
    [{}, undefined, 'valid'],
    [{ flags: 65, body: deflateRawSync(entry.body) }, undefined, 'a short body may be compressed'],
    ...[0, 199, 201, 206, 403, 410, 500, 503].map(status => [{ status }, 'no such status', `${status}`] as const),
    [{ body: Buffer.from('BODY') }, 'another body', 'of the same length'],
    [{ length: 3 }, 'another body', 'longer than stated'],
    [{ length: 5 }, 'another body', 'shorter than stated'],
    [{ etag: computeEtag('application/x-bcs', entry.body) }, 'another body', 'of another type'],
    [{ flags: 65, body: Buffer.from('not deflated at all') }, 'unreadable', 'not compressed']
  ]
  for (const [change, reason, why] of rows) t.equal(await rejectionOf(entry.key, forged(change)), reason, why)
  for (const flags of [64 + 2, 64 + 4, 64 + 8, 64 + 16, 64 + 32, 0]) {
    t.type(await rejectionOf(entry.key, forged({ flags })), 'string', `flags contradict the members: ${flags}`)
  }
})

t.test('reading more bytes than there are throws', async t => {
  const reader = new ByteReader(Buffer.from([0, 3, 0x61, 0x62]))
  t.throws(() => reader.bytes(5), RangeError)
  t.throws(() => reader.text(), RangeError, 'a text longer than the remaining bytes')
  t.equal(reader.rest().toString(), 'ab')
  t.throws(() => reader.u8(), RangeError)
})

t.test('a value that would inflate beyond its stated length, or states too much, is not inflated', async t => {
  const bomb = deflateRawSync(Buffer.alloc(50_000_000))
  const entry = stored({ ...bare, body: Buffer.alloc(10) })
  const value = await encodeEntry(entry)
  const head = Buffer.from(value.subarray(0, value.length - 10))
  // Marks the body as compressed.
  head.writeUInt8(head.readUInt8(26) | 1, 26)
  const before = process.memoryUsage().arrayBuffers
  t.equal(await rejectionOf(entry.key, resealed(Buffer.concat([head, bomb]))), 'unreadable')
  t.equal(await rejectionOf(entry.key, value, entry.body.length - 1), 'too long')
  t.ok(process.memoryUsage().arrayBuffers - before < 10_000_000)
})
