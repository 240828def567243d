import t from 'tap'
import { type FollowedHead } from '../../src/follow/ledger-knowledge.js'
import { type TailReading } from '../../src/follow/tail-reader.js'
import { type TestTail, tailAt } from '../support/tail.js'

const versionsOf = ({ transactions }: TailReading): bigint[] => transactions.map(({ version }) => version)
const lastOf = ({ transactions }: TailReading, head: FollowedHead): FollowedHead => transactions.at(-1) ?? head

/** Reads until the end of the tail, as a loop does; returns every reading. */
async function readToEnd (
  { reader }: TestTail,
  from: FollowedHead
): Promise<{ head: FollowedHead, readings: TailReading[] }> {
  const readings: TailReading[] = []
  let head = from
  for (let nth = 0; nth < 50; nth++) {
    const reading = await reader.readAfter(head)
    readings.push(reading)
    head = lastOf(reading, head)
    if (reading.result !== 'ok' || reading.stamped !== undefined) break
  }
  return { head, readings }
}

t.test('following begins at the newest transaction, with the position of its own response', async t => {
  const tail = await tailAt(t)
  const { result, transactions, stamped } = await tail.reader.readHead()
  const { version } = tail.sandbox.ledger.head
  t.equal(result, 'ok')
  t.same(transactions.map(each => [each.version, each.root]), [[version, tail.headAt(version).root]])
  t.equal(stamped?.position.head.version, version)
  t.same(tail.requested(), ['/v1/transactions?limit=1'])
})

t.test('a page begins at the head itself, and has all that follows up to its position', async t => {
  const tail = await tailAt(t)
  const head = tail.headAt(tail.sandbox.ledger.head.version)
  const none = await tail.reader.readAfter(head)
  t.match(none, { result: 'empty', transactions: [], stamped: { position: { head: { version: head.version } } } })
  tail.requested()
  tail.sandbox.ledger.grow(3)
  const some = await tail.reader.readAfter(head)
  const { version } = tail.sandbox.ledger.head
  t.same(
    versionsOf(some),
    Array.from({ length: Number(version - head.version) }, (_, at) => head.version + 1n + BigInt(at))
  )
  t.match(some, { result: 'ok', stamped: { position: { head: { version } } } })
  t.equal(tail.untruth(some), undefined)
  t.same(tail.requested(), [`/v1/transactions?start=${head.version}&limit=100`])
})

t.test('requests bypass caches between varve and the node', async t => {
  const tail = await tailAt(t)
  await tail.reader.readHead()
  const [{ headers = [] } = {}] = tail.sandbox.requests.latest
  t.match(headers.join(' '), /cache-control no-cache/i)
})

t.test('more pages up to one position are read together, also where nodes clamp the limit', async t => {
  for (const [transactionsMax, pages] of [[100, 3], [20, 8]] as const) {
    const tail = await tailAt(t, { transactionsMax, blocks: 150 })
    const end = tail.sandbox.ledger.head.version
    const head = tail.headAt(end - BigInt((transactionsMax - 1) * pages - 5))
    const reading = await tail.reader.readAfter(head)
    t.match(reading, { result: 'ok', stamped: { position: { head: { version: end } } } })
    t.equal(versionsOf(reading).length, Number(end - head.version))
    t.equal(tail.untruth(reading), undefined)
    t.equal(tail.requested().length, pages)
  }
})

t.test('beyond eight pages the rest is read after them, and nothing is lost between', async t => {
  const tail = await tailAt(t, { blocks: 12, blockTransactions: 150, transactionsMax: 20 })
  const end = tail.sandbox.ledger.head.version
  const head = tail.headAt(end - 600n)
  const reading = await tail.reader.readAfter(head)
  t.equal(reading.stamped?.position.head.version, end)
  t.equal(tail.untruth(reading), undefined)
  t.equal(versionsOf(reading).length, 600)
  t.equal(tail.requested().length, Math.ceil(600 / 19))
})

t.test('a gap of more than fifty pages is not caught up with', async t => {
  const tail = await tailAt(t, { transactionsMax: 3 })
  const end = tail.sandbox.ledger.head.version
  t.match(await tail.reader.readAfter(tail.headAt(end - 200n)), { result: 'gap', transactions: [] })
  t.ok(tail.requested().length === 1)
  const { head } = await readToEnd(tail, tail.headAt(end - 90n))
  t.equal(head.version, end)
})

t.test('a head that the upstream has pruned is a gap', async t => {
  const tail = await tailAt(t)
  const head = tail.headAt(20n)
  tail.sandbox.ledger.pruneTo(50)
  t.match(await tail.reader.readAfter(head), { result: 'gap', transactions: [], reason: /pruned/ })
})

t.test('an upstream below the head says nothing about later versions', async t => {
  const tail = await tailAt(t)
  const head = tail.headAt(tail.sandbox.ledger.head.version)
  tail.sandbox.faults.add({ kind: 'lag', blocks: 3 })
  const reading = await tail.reader.readAfter(head)
  t.same(reading, { result: 'empty', transactions: [], stamped: undefined })
})

t.test('a lie about a page ends in a failure, a gap or unknown changes, never in a wrong one', async t => {
  const lies = ['skipped', 'repeated', 'reordered', 'shortened', 'unknownChange', 'noWriteSets'] as const
  for (const lie of lies) {
    const tail = await tailAt(t)
    const end = tail.sandbox.ledger.head.version
    for (const distance of [0n, 1n, 2n, 30n]) {
      const head = tail.headAt(end - 45n)
      tail.sandbox.faults.add({ kind: 'tail', lie, version: head.version + distance })
      const { readings, head: reached } = await readToEnd(tail, head)
      for (const reading of readings) t.equal(tail.untruth(reading), undefined, `${lie} at +${distance}`)
      tail.sandbox.faults.clear()
      t.equal(
        (await readToEnd(tail, reached)).head.version,
        end,
        `${lie} at +${distance}: goes on once pages are right`
      )
    }
  }
})

t.test('a page of another chain is a mismatch, and so is the own chain after it', async t => {
  const tail = await tailAt(t)
  const end = tail.sandbox.ledger.head.version
  const head = tail.headAt(end - 60n)
  tail.sandbox.faults.add({ kind: 'tail', lie: 'otherChain', version: head.version })
  t.match(await tail.reader.readAfter(head), {
    result: 'mismatch',
    transactions: [],
    reason: /another accumulator root/
  })
  tail.sandbox.faults.clear()
  tail.sandbox.faults.add({ kind: 'tail', lie: 'otherChain', version: head.version + 30n })
  const fork = await tail.reader.readAfter(head)
  t.match(fork, { result: 'ok', stamped: { position: { head: { version: end } } } })
  tail.sandbox.faults.clear()
  tail.sandbox.ledger.grow()
  t.match(await tail.reader.readAfter(lastOf(fork, head)), { result: 'mismatch' })
})

t.test('pages that are read together end before one of another chain', async t => {
  const tail = await tailAt(t, { transactionsMax: 20, blocks: 150 })
  const end = tail.sandbox.ledger.head.version
  const head = tail.headAt(end - 120n)
  tail.sandbox.faults.add({ kind: 'tail', lie: 'otherChain', version: head.version + 50n, times: 4 })
  const reading = await tail.reader.readAfter(head)
  t.match(reading, { result: 'ok' })
  t.ok(versionsOf(reading).length < 120 && reading.stamped === undefined)
})

t.test('a response of another chain is no reading', async t => {
  const tail = await tailAt(t)
  const head = tail.headAt(tail.sandbox.ledger.head.version)
  tail.sandbox.faults.add({ kind: 'otherChain', chainId: 9 })
  for (const reading of [await tail.reader.readHead(), await tail.reader.readAfter(head)]) {
    t.match(reading, { result: 'failed', reason: /another chain/ })
  }
})

t.test('a page that ends elsewhere than at the position of its response confirms nothing', async t => {
  const tail = await tailAt(t)
  const end = tail.sandbox.ledger.head.version
  const stampedBeside = (by: bigint): void => {
    tail.sandbox.faults.clear()
    tail.sandbox.faults.add({ kind: 'headers', set: { 'x-aptos-ledger-version': `${end + by}` } })
  }
  stampedBeside(1n)
  t.match(await tail.reader.readHead(), { result: 'failed', reason: /not at the position/ })
  t.match(await tail.reader.readAfter(tail.headAt(end)), { result: 'failed', reason: /ends before the position/ })
  t.match(await tail.reader.readAfter(tail.headAt(end - 5n)), { result: 'ok', stamped: undefined })
  stampedBeside(-2n)
  const above = await tail.reader.readAfter(tail.headAt(end - 5n))
  t.match(above, { result: 'ok', stamped: undefined })
  t.equal(versionsOf(above).at(-1), end)
})
