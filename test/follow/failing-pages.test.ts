import t from 'tap'
import { tailAt } from '../support/tail.js'

t.test('a version that no upstream can print is a change of everything, and the tail goes on', async t => {
  const tail = await tailAt(t, { blocks: 100 })
  const end = tail.sandbox.ledger.head.version
  for (const distance of [1n, 2n, 3n, 57n]) {
    let head = tail.headAt(end - 120n)
    const failing = head.version + distance
    tail.sandbox.faults.add({ kind: 'tail', lie: 'failing', version: failing })
    const reasons: Array<string | undefined> = []
    for (let nth = 0; nth < 5 && head.version < end; nth++) {
      const reading = await tail.reader.readAfter(head)
      t.equal(tail.untruth(reading), undefined)
      reasons.push(
        ...reading.transactions.map(({ version, touchesAll }) => version === failing ? touchesAll : undefined)
      )
      head = reading.transactions.at(-1) ?? head
    }
    t.equal(head.version, end)
    t.ok(reasons.includes('unreadable'), `at +${distance}`)
    tail.sandbox.faults.clear()
  }
})

t.test('a few failing versions side by side are stepped over, and no more in one reading', async t => {
  const failing: bigint[] = []
  const tail = await tailAt(t, {}, { failing })
  const head = tail.headAt(tail.sandbox.ledger.head.version - 60n)
  failing.push(head.version + 1n, head.version + 2n, head.version + 3n)
  const reading = await tail.reader.readAfter(head)
  const reasons = reading.transactions.slice(0, 4).map(({ touchesAll }) => touchesAll)
  t.same(reasons, ['unreadable', 'unreadable', 'unreadable', undefined])
  t.equal(tail.untruth(reading), undefined)
  failing.push(head.version + 4n)
  t.match(await tail.reader.readAfter(head), { result: 'failed', reason: /cannot be printed/ })
})

t.test('a failing newest version waits for the next one', async t => {
  const tail = await tailAt(t)
  const end = tail.sandbox.ledger.head.version
  const head = tail.headAt(end - 1n)
  tail.sandbox.faults.add({ kind: 'tail', lie: 'failing', version: end })
  t.match(await tail.reader.readAfter(head), { result: 'empty', transactions: [], stamped: undefined })
  tail.sandbox.ledger.grow()
  const reading = await tail.reader.readAfter(head)
  t.match(reading, { result: 'ok', transactions: [{ version: end, touchesAll: 'unreadable' }, { version: end + 1n }] })
  const stepped = { version: end, root: undefined }
  t.match(await tail.reader.readAfter(stepped), { result: 'ok', transactions: [{ version: end + 1n }] })
})

t.test('after a version that was stepped over, a page must begin where it was requested', async t => {
  const tail = await tailAt(t)
  const end = tail.sandbox.ledger.head.version
  const stepped = { version: end - 20n, root: undefined }
  tail.sandbox.faults.add({ kind: 'tail', lie: 'skipped', version: end - 19n })
  t.match(await tail.reader.readAfter(stepped), { result: 'failed', reason: /does not begin/ })
  tail.sandbox.faults.clear()
  t.match(await tail.reader.readAfter(stepped), { result: 'ok' })
})

t.test('an upstream that fails on every page is not searched for a version to step over', async t => {
  const tail = await tailAt(t)
  const end = tail.sandbox.ledger.head.version
  const faults = [
    { kind: 'error', match: 'transactions', code: 'internal_error' },
    { kind: 'tail', lie: 'failing' }
  ] as const
  for (const fault of faults) {
    tail.sandbox.faults.add(fault)
    tail.requested()
    t.match(await tail.reader.readAfter(tail.headAt(end - 60n)), { result: 'failed', reason: /cannot be printed/ })
    const requests = tail.requested().length
    t.ok(requests < 20, `${requests} requests`)
    t.match(await tail.reader.readHead(), { result: 'failed' })
    // A chain of versions that were stepped over has no root to begin with.
    t.match(await tail.reader.readAfter({ version: end - 60n, root: undefined }), { result: 'failed' })
    t.ok(tail.requested().length < 60)
    tail.sandbox.faults.clear()
  }
})

t.test('an upstream without lists of transactions is unsupported, and a busy one only fails', async t => {
  const tail = await tailAt(t)
  const head = tail.headAt(tail.sandbox.ledger.head.version - 5n)
  const cases = [
    [{ kind: 'error', code: 'web_framework_error', status: 404, stamped: false }, true],
    [{ kind: 'error', code: 'api_disabled', status: 403 }, true],
    [{ kind: 'error', code: 'internal_error', status: 501 }, true],
    [{ kind: 'error', code: 'internal_error', status: 503 }, false],
    [{ kind: 'rateLimited' }, false]
  ] as const
  for (const [fault, isUnsupported] of cases) {
    tail.sandbox.faults.add({ match: 'transactions', ...fault })
    const { status } = await fetch(`${tail.sandbox.url}/v1/transactions`)
    t.match(await tail.reader.readAfter(head), {
      result: 'failed',
      isUnsupported,
      reason: `the upstream responds to lists of transactions with ${status}`
    })
    tail.sandbox.faults.clear()
  }
})

t.test('a page that is no list, has no position or never arrives is a failure', async t => {
  const tail = await tailAt(t)
  const head = tail.headAt(tail.sandbox.ledger.head.version - 5n)
  const faults = [
    { kind: 'body', body: '{}' },
    { kind: 'body', body: '[]' },
    { kind: 'html' },
    { kind: 'panic200' },
    { kind: 'cutShort' },
    { kind: 'reset' }
  ] as const
  for (const fault of faults) {
    tail.sandbox.faults.add({ match: 'transactions', ...fault })
    t.match(await tail.reader.readAfter(head), { result: 'failed', transactions: [] }, JSON.stringify(fault))
    tail.sandbox.faults.clear()
  }
})

t.test('a page that is too large for memory is halved', async t => {
  // Pages of 100 exceed the test's limit of 1 MB per body.
  const tail = await tailAt(t, { blocks: 150 })
  const head = tail.headAt(0n)
  let reached = head
  for (let nth = 0; nth < 3; nth++) {
    const reading = await tail.reader.readAfter(reached)
    t.equal(tail.untruth(reading), undefined)
    reached = reading.transactions.at(-1) ?? reached
  }
  t.ok(reached.version > 100n, `${reached.version}`)
})

t.test('a page that BCS cannot check is believed, or changes everything where all are checked', async t => {
  const rows = [['share', undefined], ['all', 'unverified']] as const
  for (const [verify, touchesAll] of rows) {
    const tail = await tailAt(t, { bcsOutput: false }, { verify })
    const end = tail.sandbox.ledger.head.version
    const behindStepped = await tail.reader.readAfter({ version: end - 1n, root: undefined })
    t.match(behindStepped, { result: 'ok', transactions: [{ version: end, touchesAll }] }, verify)
    const reading = await tail.reader.readAfter(tail.headAt(end - 9n))
    t.match(reading, { result: 'ok', stamped: { position: { head: { version: end } } } }, verify)
    t.same(reading.transactions.map(each => each.touchesAll), Array(9).fill(touchesAll), verify)
    t.ok(tail.verified.length > 0 && tail.verified.every(result => result === 'unavailable'), verify)
  }
})

t.test('a checked page that hides a change is different', async t => {
  const tail = await tailAt(t, {}, { verify: 'all' })
  const end = tail.sandbox.ledger.head.version
  const honest = await tail.reader.readAfter(tail.headAt(end - 60n))
  t.same(tail.verified, ['equal'])
  const version = honest.transactions.find(({ touched }) => touched.length > 4)?.version ?? 0n
  for (const lie of ['droppedChange', 'noWriteSets'] as const) {
    tail.sandbox.faults.add({ kind: 'tail', lie, version })
    await tail.reader.readAfter(tail.headAt(end - 60n))
    t.equal(tail.verified.at(-1), 'different', lie)
    tail.sandbox.faults.clear()
  }
})
