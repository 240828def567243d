import t from 'tap'
import { TailLoop } from '../../src/follow/tail-loop.js'
import { type TailReading } from '../../src/follow/tail-reader.js'
import { drivenTail, failure, stampedAt, transactionAt } from '../support/tail.js'
import { until } from '../support/until.js'

t.test('nothing is read before the first latest read', async t => {
  const tail = drivenTail(t)
  await tail.pass(2000)
  t.same([tail.readings.length, tail.follower.state], [0, 'idle'])
  tail.loop.recordRead()
  await tail.pass(20)
  t.same([tail.readings.length, tail.follower.state], [1, 'following'])
  t.same(tail.states, [['starting', undefined], ['following', undefined]])
  t.same(tail.touchedAll, ['start'])
})

t.test('the tail is read often enough for its age, and at most 1.5 times per age', async t => {
  const rows: ReadonlyArray<readonly [why: string, latencyOf: (reading: number) => number, isInTime: boolean]> = [
    ['quick readings', () => 5, true],
    ['one reading in four takes far longer', reading => reading % 4 === 0 ? 70 : 5, true],
    ['slow readings', () => 60, false],
    ['readings that take most of the age', () => 200, false]
  ]
  for (const [why, latencyOf, isInTime] of rows) {
    const tail = drivenTail(t)
    let tooOld = 0
    await tail.pass(20_000, () => {
      tail.latencyMs = latencyOf(tail.readings.length)
      tail.loop.recordRead()
      tail.loop.recordSaved(5)
      if (tail.now() > 5000 && tail.follower.headFor(tail.now()) === undefined) tooOld++
    })
    const periods = 20_000 / 250
    t.ok(tail.readings.length <= periods * 1.5 + 2, `${why}: ${tail.readings.length} readings`)
    t.ok(tail.readings.length >= periods, `${why}: ${tail.readings.length} readings`)
    if (isInTime) t.equal(tooOld, 0, `${why}: each read finds a head that is new enough`)
    tail.loop.close()
  }
})

t.test('reads that want a newer head do not exceed the budget, and are served once it allows', async t => {
  const tail = drivenTail(t)
  tail.loop.recordRead()
  await tail.pass(1000)
  const before = tail.readings.length
  tail.loop.wake()
  await tail.pass(10)
  t.equal(tail.readings.length, before + 1, 'a saved reading is used at once')
  const startedAt = tail.readings.length
  await tail.pass(5000, () => {
    tail.loop.wake()
  })
  const spent = tail.readings.length - startedAt
  t.ok(spent <= 5000 / 250 * 1.5 + 2, `${spent} readings`)
  t.ok(spent >= 5000 / 250 * 1.4, `${spent} readings`)
})

t.test('real timers, which may fire a moment early, do not exceed the budget', async t => {
  const readAtMs: number[] = []
  const read = async (): Promise<TailReading> => {
    readAtMs.push(performance.now())
    return { result: 'empty', transactions: [], stamped: stampedAt(100) }
  }
  const loop = new TailLoop({
    reader: { readHead: read, readAfter: read },
    follower: { head: undefined, state: 'starting', apply: () => {}, setState: () => {}, clear: () => {} },
    now: () => performance.now(),
    maxAgeMs: 250,
    metrics: { read: () => {}, touchedAll: () => {} },
    onMismatch: async () => {}
  })
  const waking = setInterval(() => {
    loop.wake()
  }, 1)
  t.teardown(() => {
    clearInterval(waking)
    loop.close()
  })
  loop.recordRead()
  await until(async () => readAtMs.length >= 12, 'the tail was read')
  const [first = 0, last = 0] = [readAtMs[0], readAtMs[11]]
  t.ok(last - first >= 10 * 250 / 1.5 - 1, `12 readings took ${last - first} ms`)
})

t.test('reading is suspended after a minute without a latest read, and resumes with the next', async t => {
  const tail = drivenTail(t, { maxAgeMs: 1000, stepMs: 50 })
  await tail.pass(10_000, () => {
    tail.loop.recordRead()
    tail.loop.recordSaved()
  })
  t.equal(tail.follower.state, 'following')
  await tail.pass(59_000, () => {
    tail.loop.recordSaved()
  })
  t.equal(tail.follower.state, 'following')
  await tail.pass(3000)
  t.same(tail.states.at(-1), ['suspended', 'no latest read for 60 s'])
  t.equal(tail.served.at(-1), undefined, 'the served head is no longer the followed one')
  const { length } = tail.readings
  await tail.pass(20_000)
  t.equal(tail.readings.length, length)
  tail.head += 5
  tail.loop.recordRead()
  await tail.pass(100)
  t.same([tail.follower.state, tail.follower.head?.version], ['following', 105n])
  t.same(tail.touchedAll, ['start'], 'nothing was forgotten')
})

t.test('reading is suspended when it costs more than it saves over a minute', async t => {
  const tail = drivenTail(t, { maxAgeMs: 1000, stepMs: 50 })
  let saved = 0
  await tail.pass(130_000, () => {
    tail.loop.recordRead()
    if (tail.now() % 1000 === 0 && saved++ >= 0) tail.loop.recordSaved(2)
  })
  t.equal(tail.follower.state, 'following', 'two minutes that pay')
  await tail.pass(62_000, () => {
    if (tail.now() % 30_000 === 0) tail.loop.recordRead()
  })
  const suspended = tail.states.filter(([state]) => state === 'suspended')
  t.match(suspended, [['suspended', /^\d+ tail reads saved \d+ reads in 60 s$/]])
})

t.test('failures interrupt following and are retried with growing pauses of at most 5 s', async t => {
  const tail = drivenTail(t, { stepMs: 10 })
  tail.loop.recordRead()
  await tail.pass(500)
  tail.respond = () => failure()
  const from = tail.readings.length
  await tail.pass(30_000)
  t.equal(tail.follower.state, 'interrupted')
  t.equal(tail.follower.reason, 'no upstream responds')
  t.equal(tail.follower.headFor(tail.now()), undefined)
  const pauses = tail.readings.slice(from).map((at, nth, all) => at - (all[nth - 1] ?? at)).slice(1)
  t.ok(pauses.every((pause, nth) => pause >= (pauses[nth - 1] ?? 0) - 20), `${pauses}`)
  t.ok(Number(pauses[0]) >= 490 && Math.max(...pauses) <= 5100, `${pauses}`)
  tail.respond = () => undefined
  await tail.pass(5200)
  t.equal(tail.follower.state, 'following')
})

t.test('an upstream without lists of transactions is tried again after a minute', async t => {
  const tail = drivenTail(t, { stepMs: 50 })
  tail.respond = () => failure(true)
  tail.loop.recordRead()
  await tail.pass(59_000)
  t.same([tail.readings.length, tail.follower.state], [1, 'unsupported'])
  tail.respond = () => undefined
  await tail.pass(2000, () => {
    tail.loop.recordRead()
  })
  t.equal(tail.follower.state, 'following')
})

t.test('an upstream that lists no changes is unsupported, and one empty set says nothing', async t => {
  const ownHash = 32n
  for (const [reason, isFound] of [['unlisted', true], ['unreadable', true], ['unverified', false]] as const) {
    const tail = drivenTail(t)
    // Checkpoints have no changes on every node.
    tail.transaction = version => transactionAt(version, [ownHash], version % 4 === 0 ? undefined : reason)
    tail.loop.recordRead()
    for (let nth = 0; nth < 10; nth++) {
      tail.head += 4
      await tail.pass(250)
    }
    t.equal(tail.follower.state === 'unsupported', isFound, reason)
    if (isFound) t.match(tail.follower.reason, /lists no changes/)
    tail.loop.close()
  }
  const tail = drivenTail(t)
  tail.transaction = version =>
    version % 10 === 0 ? transactionAt(version, [16n, ownHash]) : transactionAt(version, [ownHash], 'unlisted')
  tail.loop.recordRead()
  for (let nth = 0; nth < 10; nth++) {
    tail.head += 10
    await tail.pass(250)
  }
  t.equal(tail.follower.state, 'following', 'changes between are changes')
})

t.test('a gap begins again at the head; a mismatch has the upstreams verified first', async t => {
  const tail = drivenTail(t)
  const once = (reading: TailReading): void => {
    tail.respond = () => {
      tail.respond = () => undefined
      return reading
    }
  }
  tail.loop.recordRead()
  await tail.pass(300)
  once({ result: 'gap', transactions: [], stamped: stampedAt(900), reason: 'too far behind the head' })
  tail.head = 900
  await tail.pass(300)
  t.equal(tail.follower.head, undefined)
  await tail.pass(300)
  t.equal(tail.follower.head?.version, 900n)
  once({ result: 'mismatch', transactions: [], stamped: stampedAt(900), reason: 'another root' })
  await tail.pass(600)
  once({ result: 'mismatch', transactions: [], stamped: stampedAt(900) })
  await tail.pass(600)
  t.same(tail.mismatches, ['another root', undefined])
  t.same(tail.touchedAll, ['start', 'gap', 'mismatch', 'mismatch'])
  t.equal(tail.follower.state, 'following')
})

t.test('a reading that did not reach the end goes on within the budget', async t => {
  const tail = drivenTail(t)
  tail.loop.recordRead()
  await tail.pass(1000)
  let next = 101
  tail.respond = () => ({
    result: 'ok',
    transactions: [{ ...transactionAt(next++, [16n], next % 2 === 0 ? 'epoch' : undefined), hashes: undefined }],
    stamped: undefined
  })
  const { length } = tail.readings
  await tail.pass(1000)
  const readings = tail.readings.length - length
  t.ok(readings >= 5 && readings <= 8, `${readings}`)
  t.equal(tail.follower.headFor(tail.now()), undefined, 'no position confirms the head')
  t.ok(tail.touchedAll.includes('epoch'))
})

t.test('observing alone has a cadence of its own, and serves no head', async t => {
  const tail = drivenTail(t, { maxAgeMs: 0, isServing: false })
  tail.loop.recordRead()
  await tail.pass(5000)
  t.ok(tail.readings.length >= 20 && tail.readings.length <= 32, `${tail.readings.length}`)
  t.equal(tail.follower.headFor(tail.now()), undefined)
  t.same(tail.served, [])
})
