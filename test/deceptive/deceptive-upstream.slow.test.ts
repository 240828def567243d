import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { type ReadKind, readKindOf, readKinds, type TrueResponse } from '../support/deceptive/read-kinds.js'
import { blockLies, notFoundLies, pageLies, transactionLies } from '../support/deceptive/lies/bodies.js'
import { chunkLies, lengthLies } from '../support/deceptive/lies/framing.js'
import { headerLies, statusLies, mediaTypeLies } from '../support/deceptive/lies/heads.js'
import { positionLies } from '../support/deceptive/lies/positions.js'
import { faultsOfLie, type ExpectedOutcome, startDeception, tryLies } from '../support/deceptive/try-lies.js'
import { type ScriptedBytes, responseBytes } from '../support/deceptive/response-bytes.js'
import { until } from '../support/until.js'

const timeoutMs = 1500

t.test('varve detects every false response on every kind of read', async t => {
  for (
    const lies of [
      lengthLies,
      chunkLies,
      headerLies,
      statusLies,
      mediaTypeLies,
      positionLies,
      blockLies,
      pageLies,
      transactionLies,
      notFoundLies
    ]
  ) {
    await tryLies(t, lies)
  }
})

type Slow = readonly [
  string,
  (truth: TrueResponse) => ScriptedBytes,
  { readonly known: ExpectedOutcome, readonly passed: ExpectedOutcome | undefined }
]

const slow: readonly Slow[] = [
  ['a head a byte at a time', truth => ({ bytes: responseBytes(truth), then: 'hang', everyMs: 50 }), {
    known: 'rejected',
    passed: 'rejected'
  }],
  ['a head that begins and hangs', truth => ({ bytes: responseBytes(truth).slice(0, 40), then: 'hang' }), {
    known: 'rejected',
    passed: 'rejected'
  }],
  ['a body that begins and hangs', truth => ({ bytes: responseBytes(truth).slice(0, -1), then: 'hang' }), {
    known: 'rejected',
    passed: 'broken'
  }],
  [
    'early hints without end',
    () => ({ bytes: 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(1000), then: 'hang', everyMs: 1 }),
    { known: 'rejected', passed: 'rejected' }
  ],
  [
    'early hints without end, as fast as they are taken',
    () => ({ bytes: '', then: 'hang', endless: 'HTTP/1.1 103 Early Hints\r\nlink: </evil>\r\n\r\n'.repeat(10) }),
    { known: 'rejected', passed: 'rejected' }
  ],
  [
    'lines without end',
    () => ({ bytes: 'HTTP/1.1 200 OK\r\n', then: 'hang', endless: 'x-evil: evil\r\n'.repeat(100) }),
    { known: 'rejected', passed: 'rejected' }
  ],
  ['a line without end', () => ({ bytes: 'HTTP/1.1 200 OK\r\nx: ', then: 'hang', endless: 'evil'.repeat(1000) }), {
    known: 'rejected',
    passed: 'rejected'
  }]
]

/** Sends a false response to each kind of read and measures the time. */
async function tryEach (
  t: Test,
  of: readonly ReadKind[],
  name: string,
  respond: (truth: TrueResponse) => ScriptedBytes,
  seen: (kind: ReadKind) => ExpectedOutcome | undefined
): Promise<void> {
  const stage = await startDeception(t, { cache: { maxEntryMb: 1 }, upstream: { timeoutMs } })
  const tryKind = async (kind: ReadKind): Promise<void> => {
    const truth = kind.trueResponse(stage.next())
    const wanted = seen(kind)
    if (wanted === undefined) return
    const began = performance.now()
    t.same(
      await faultsOfLie(stage, kind, { name, respond, cacheable: wanted, forwarded: wanted }, wanted, truth),
      [],
      `${name}: ${kind.name}`
    )
    const tookMs = performance.now() - began
    t.ok(tookMs < 10 * timeoutMs, `${name}: ${kind.name} took ${Math.round(tookMs)} ms`)
  }
  const isFlood = respond(readKindOf('modules').trueResponse(0)).endless !== undefined
  // Sends floods one after the other: they share their process with the upstream that makes them.
  if (!isFlood) await Promise.all(of.map(tryKind))
  else for (const kind of of) await tryKind(kind)
  await until(
    () => stage.upstream.last?.destroyed === true || stage.upstream.lies.size === 0,
    'the upstream has sent its false responses'
  )
}

t.test('a slow upstream never gets more than its timeout', async t => {
  for (const [name, lie, { known, passed }] of slow) {
    await tryEach(t, readKinds, name, lie, ({ isForwarded }) => isForwarded ? passed : known)
  }
})

t.test('varve never buffers an endless body: it rejects it, or streams it to the client', async t => {
  const before = process.memoryUsage().rss
  const endless = 'x'.repeat(65_536)
  const known = readKinds.filter(({ isForwarded }) => !isForwarded)
  await tryEach(
    t,
    known,
    'a body without end or length',
    truth => ({ bytes: responseBytes(truth, { framing: [] }), then: 'hang', endless }),
    () => 'rejected'
  )
  await tryEach(
    t,
    known,
    'a coded body without end',
    truth => ({
      bytes: responseBytes(truth, {
        lines: ['content-encoding: gzip'],
        framing: ['transfer-encoding: chunked'],
        body: ''
      }),
      then: 'hang',
      endless: `10000\r\n${endless}\r\n`
    }),
    () => 'rejected'
  )
  await tryEach(
    t,
    known,
    'an error without end',
    truth => ({
      bytes: responseBytes(truth, { first: 'HTTP/1.1 302 Found', framing: ['transfer-encoding: chunked'], body: '' }),
      then: 'hang',
      endless: `10000\r\n${endless}\r\n`
    }),
    () => 'rejected'
  )
  const grownMb = (process.memoryUsage().rss - before) / 1e6
  t.ok(grownMb < 300, `the process grew by ${Math.round(grownMb)} MB`)
})

t.test('varve does not inflate a body to gigabytes', async t => {
  const bomb = gzipSync(gzipSync(Buffer.alloc(300_000_000))).toString('latin1')
  const before = process.memoryUsage().rss
  await tryEach(
    t,
    readKinds,
    'a decompression bomb',
    truth => ({ bytes: responseBytes(truth, { lines: ['content-encoding: gzip, gzip'], body: bomb }), then: 'keep' }),
    ({ isForwarded }) => isForwarded ? { status: 200, body: bomb } : 'rejected'
  )
  const grownMb = (process.memoryUsage().rss - before) / 1e6
  t.ok(grownMb < 100, `the process grew by ${Math.round(grownMb)} MB`)
})
