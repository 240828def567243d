import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { type Kind, kindOf, kinds, type Truth } from '../support/deceptive/kinds.js'
import { blocks, denials, pages, transactions } from '../support/deceptive/lies/bodies.js'
import { chunks, lengths } from '../support/deceptive/lies/framing.js'
import { lines, statuses, types } from '../support/deceptive/lies/heads.js'
import { positions } from '../support/deceptive/lies/positions.js'
import { faultsOf, type Seen, stageOf, tryLies } from '../support/deceptive/trial.js'
import { type Said, wire } from '../support/deceptive/wire.js'
import { until } from '../support/until.js'

const timeoutMs = 1500

t.test('every lie is seen through on every kind of read', async t => {
  for (const lies of [lengths, chunks, lines, statuses, types, positions, blocks, pages, transactions, denials]) {
    await tryLies(t, lies)
  }
})

type Slow = readonly [string, (truth: Truth) => Said, { readonly known: Seen, readonly passed: Seen | undefined }]

const slow: readonly Slow[] = [
  ['a head a byte at a time', truth => ({ bytes: wire(truth), then: 'hang', everyMs: 50 }), {
    known: 'refused',
    passed: 'refused'
  }],
  ['a head that begins and hangs', truth => ({ bytes: wire(truth).slice(0, 40), then: 'hang' }), {
    known: 'refused',
    passed: 'refused'
  }],
  ['a body that begins and hangs', truth => ({ bytes: wire(truth).slice(0, -1), then: 'hang' }), {
    known: 'refused',
    passed: 'broken'
  }],
  [
    'early hints without end',
    () => ({ bytes: 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(1000), then: 'hang', everyMs: 1 }),
    { known: 'refused', passed: 'refused' }
  ],
  [
    'early hints without end, as fast as they are taken',
    () => ({ bytes: '', then: 'hang', endless: 'HTTP/1.1 103 Early Hints\r\nlink: </evil>\r\n\r\n'.repeat(10) }),
    { known: 'refused', passed: 'refused' }
  ],
  [
    'lines without end',
    () => ({ bytes: 'HTTP/1.1 200 OK\r\n', then: 'hang', endless: 'x-evil: evil\r\n'.repeat(100) }),
    { known: 'refused', passed: 'refused' }
  ],
  ['a line without end', () => ({ bytes: 'HTTP/1.1 200 OK\r\nx: ', then: 'hang', endless: 'evil'.repeat(1000) }), {
    known: 'refused',
    passed: 'refused'
  }]
]

/** Tells a lie to each kind of read, and looks how long it took. */
async function tellEach (
  t: Test,
  of: readonly Kind[],
  name: string,
  say: (truth: Truth) => Said,
  seen: (kind: Kind) => Seen | undefined
): Promise<void> {
  const stage = await stageOf(t, { cache: { maxEntryMb: 1 }, upstream: { timeoutMs } })
  const tell = async (kind: Kind): Promise<void> => {
    const truth = kind.truth(stage.next())
    const wanted = seen(kind)
    if (wanted === undefined) return
    const began = performance.now()
    t.same(
      await faultsOf(stage, kind, { name, say, known: wanted, passed: wanted }, wanted, truth),
      [],
      `${name}: ${kind.name}`
    )
    const tookMs = performance.now() - began
    t.ok(tookMs < 10 * timeoutMs, `${name}: ${kind.name} took ${Math.round(tookMs)} ms`)
  }
  const isFlood = say(kindOf('modules').truth(0)).endless !== undefined
  // Floods one after the other: they share their process with the node that makes them.
  if (!isFlood) await Promise.all(of.map(tell))
  else for (const kind of of) await tell(kind)
  await until(() => stage.node.last?.destroyed === true || stage.node.lies.size === 0, 'nothing is left of it')
}

t.test('a node that takes its time has no more of it than it may have', async t => {
  for (const [name, say, { known, passed }] of slow) {
    await tellEach(t, kinds, name, say, ({ isPassed }) => isPassed ? passed : known)
  }
})

t.test('a body without end is never held: it is refused, or goes to whoever reads it', async t => {
  const before = process.memoryUsage().rss
  const endless = 'x'.repeat(65_536)
  const known = kinds.filter(({ isPassed }) => !isPassed)
  await tellEach(
    t,
    known,
    'a body without end or length',
    truth => ({ bytes: wire(truth, { framing: [] }), then: 'hang', endless }),
    () => 'refused'
  )
  await tellEach(
    t,
    known,
    'a coded body without end',
    truth => ({
      bytes: wire(truth, { lines: ['content-encoding: gzip'], framing: ['transfer-encoding: chunked'], body: '' }),
      then: 'hang',
      endless: `10000\r\n${endless}\r\n`
    }),
    () => 'refused'
  )
  await tellEach(
    t,
    known,
    'an error without end',
    truth => ({
      bytes: wire(truth, { first: 'HTTP/1.1 302 Found', framing: ['transfer-encoding: chunked'], body: '' }),
      then: 'hang',
      endless: `10000\r\n${endless}\r\n`
    }),
    () => 'refused'
  )
  const grownMb = (process.memoryUsage().rss - before) / 1e6
  t.ok(grownMb < 300, `the process grew by ${Math.round(grownMb)} MB`)
})

t.test('what would inflate to gigabytes is not inflated', async t => {
  const bomb = gzipSync(gzipSync(Buffer.alloc(300_000_000))).toString('latin1')
  const before = process.memoryUsage().rss
  await tellEach(
    t,
    kinds,
    'a decompression bomb',
    truth => ({ bytes: wire(truth, { lines: ['content-encoding: gzip, gzip'], body: bomb }), then: 'keep' }),
    ({ isPassed }) => isPassed ? { status: 200, body: bomb } : 'refused'
  )
  const grownMb = (process.memoryUsage().rss - before) / 1e6
  t.ok(grownMb < 100, `the process grew by ${Math.round(grownMb)} MB`)
})
