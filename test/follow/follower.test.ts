import t from 'tap'
import { Follower, type FollowerOptions, type FollowState } from '../../src/follow/follower.js'
import { LedgerKnowledge } from '../../src/follow/ledger-knowledge.js'
import { drivenTail, stampedAt, transactionAt } from '../support/tail.js'

/** A follower without a tail; its clock stands still unless moved. */
function followerOf (change: Partial<FollowerOptions> = {}) {
  const clock = { ms: 1000 }
  const states: Array<[state: FollowState, reason: string | undefined]> = []
  const served: Array<bigint | undefined> = []
  const calls = { reads: 0, saved: 0, wakes: 0 }
  const follower = new Follower({
    now: () => clock.ms,
    maxAgeMs: 250,
    isServing: true,
    servedVersion: () => undefined,
    onServedHead: stamped => served.push(stamped?.position.head.version),
    onState: (state, reason) => states.push([state, reason]),
    ...change
  }, new LedgerKnowledge(64))
  follower.setDemandSink({
    recordRead: () => calls.reads++,
    recordSaved: () => calls.saved++,
    wake: () => calls.wakes++
  })
  const update = (from: number, to: number, { begins = false, end = to, sentAtMs = clock.ms } = {}): void => {
    const transactions = Array.from({ length: to - from + 1 }, (_, at) => transactionAt(from + at, [16n]))
    follower.apply({ begins, transactions, stamped: stampedAt(end), sentAtMs })
  }
  return { follower, clock, states, served, calls, update }
}

t.test('observing, an age of 0 and every state but following serve nothing', async t => {
  for (const change of [{ isServing: false }, { maxAgeMs: 0 }]) {
    const { follower, update, served } = followerOf(change)
    update(100, 100, { begins: true })
    t.equal(follower.headFor(1000), undefined)
    if (change.isServing === false) t.same(served, [])
  }
  for (const state of ['starting', 'suspended', 'interrupted', 'unsupported', 'stopped'] as const) {
    const { follower, update, served, states } = followerOf()
    update(100, 100, { begins: true })
    follower.setState(state, 'why')
    t.equal(follower.headFor(1000), undefined, state)
    t.same(served, [100n, undefined])
    t.same(states, [['following', undefined], [state, 'why']])
    t.same([follower.state, follower.reason], [state, 'why'])
  }
})

t.test('a wait for a transaction ends with its version, or when the ledger is followed no longer', async t => {
  const { follower, update, calls } = followerOf()
  const stays = new AbortController().signal
  t.equal(await follower.waitForTransaction(16n, 5000, stays), undefined, 'nothing is followed')
  update(100, 100, { begins: true })
  const [committed, unknown] = [16n, 32n].map(async hash => await follower.waitForTransaction(hash, 5000, stays))
  update(101, 102)
  t.equal(await committed, 102n)
  t.equal(await follower.waitForTransaction(16n, 5000, stays), 102n, 'a transaction that was read before')
  t.equal(await follower.waitForTransaction(32n, 1, stays), undefined, 'a timeout')
  follower.clear()
  t.equal(await unknown, undefined)
  t.equal(calls.saved, 2)
})

t.test('a wait for a transaction ends with its client', async t => {
  const { follower, update } = followerOf()
  update(100, 100, { begins: true })
  const client = new AbortController()
  const waits = follower.waitForTransaction(32n, 60_000, client.signal)
  client.abort()
  t.equal(await waits, undefined)
  t.equal(await follower.waitForTransaction(32n, 60_000, client.signal), undefined, 'it left before')
})

t.test('the waits for transactions are at most 10,000; another ends at once', async t => {
  const { follower, update } = followerOf()
  update(100, 100, { begins: true })
  const clients: AbortController[] = []
  const wait = async (): Promise<bigint | undefined> => {
    const client = new AbortController()
    clients.push(client)
    return await follower.waitForTransaction(32n, 60_000, client.signal)
  }
  const waits = Array.from({ length: 9_999 }, wait)
  const last = wait()
  t.equal(await Promise.race([last, new Promise(resolve => setImmediate(resolve, 'waits'))]), 'waits')
  t.equal(await wait(), undefined)
  for (const client of clients) client.abort()
  t.same(new Set(await Promise.all([...waits, last])), new Set([undefined]))
  const next = follower.waitForTransaction(16n, 5000, new AbortController().signal)
  update(101, 102)
  t.equal(await next, 102n, 'there is room again')
})

t.test('a gap between updates loses what was known', async t => {
  for (const [from, to] of [[105, 106], [99, 101], [103, 103]] as const) {
    const { follower, update } = followerOf()
    update(100, 100, { begins: true })
    update(101, 101)
    update(from, to)
    t.equal(follower.head?.version, BigInt(to))
    t.equal(follower.validityAt(BigInt(to), 100n, [32n]), 'unknown')
  }
})

t.test('a page that ends elsewhere than at its position confirms nothing', async t => {
  const { follower, update, served, clock } = followerOf()
  update(100, 100, { begins: true })
  clock.ms = 2000
  update(101, 103, { end: 110 })
  t.same([follower.head?.version, follower.confirmed, follower.headFor(2000)], [103n, undefined, undefined])
  follower.apply({ begins: false, transactions: [], stamped: undefined, sentAtMs: 2000 })
  t.equal(follower.headFor(2000), undefined)
  follower.apply({ begins: false, transactions: [], stamped: stampedAt(103), sentAtMs: 2000 })
  t.same(follower.headFor(2000), stampedAt(103))
  t.same(served, [100n, 103n])
})

t.test('stopped is final: no update and no other state ends it, and nothing is known any more', async t => {
  const { follower, update, states } = followerOf()
  update(100, 100, { begins: true })
  update(101, 102)
  follower.setState('stopped', 'a difference')
  update(103, 103)
  follower.setState('starting', undefined)
  t.same([follower.state, follower.reason, follower.head], ['stopped', 'a difference', undefined])
  t.equal(follower.validityAt(102n, 101n, [32n]), 'unknown', 'what was read is not trusted')
  t.equal(follower.unchangedSince(102n, [32n]), 102n)
  t.equal(states.length, 2)
  follower.clear()
  t.equal(follower.state, 'stopped')
})

/** Waits as a read does; returns whether it is done, and the time that it took. */
function waitFor (tail: ReturnType<typeof drivenTail>): { isDone: boolean, tookMs: number | undefined } {
  const startedAtMs = tail.now()
  const waiting: { isDone: boolean, tookMs: number | undefined } = { isDone: false, tookMs: undefined }
  tail.follower.bringUp(startedAtMs).then(() => {
    waiting.isDone = true
    waiting.tookMs = tail.now() - startedAtMs
  }, t.fail)
  return waiting
}

t.test('a read that comes during a reading which ends too low waits for one more', async t => {
  const tail = drivenTail(t)
  tail.loop.recordRead()
  await tail.pass(1000)
  tail.latencyMs = 30
  tail.loop.wake()
  await tail.pass(10)
  tail.head = 101
  tail.servedVersion = 101n
  const read = waitFor(tail)
  await tail.pass(200)
  t.ok(read.isDone && Number(read.tookMs) < 200, `${read.tookMs} ms`)
  t.ok(tail.follower.headFor(tail.now() - 100))
})

t.test('a read waits at most 500 ms for the tail', async t => {
  const tail = drivenTail(t)
  tail.loop.recordRead()
  await tail.pass(300)
  tail.servedVersion = 900n
  const read = waitFor(tail)
  await tail.pass(480)
  t.notOk(read.isDone)
  await tail.pass(40)
  t.ok(read.isDone)
  t.equal(tail.follower.headFor(tail.now()), undefined)
})

t.test('while readings of the tail are slow, a read waits for three of them, but no more than 2 s', async t => {
  for (const [latencyMs, waitMs] of [[200, 600], [400, 1200], [900, 2000]] as const) {
    const tail = drivenTail(t)
    tail.latencyMs = latencyMs
    tail.loop.recordRead()
    await tail.pass(2 * latencyMs + 20)
    tail.servedVersion = 900n
    const read = waitFor(tail)
    // The wait counts from the end of the head's age, which a slow reading outlasts.
    await tail.pass(waitMs - latencyMs)
    t.notOk(read.isDone, `${latencyMs} ms: it waits`)
    await tail.pass(latencyMs + 20)
    t.ok(read.isDone, `${latencyMs} ms: it is forwarded`)
  }
})

t.test('a hanging upstream of the tail delays the reads of half a second, and no later ones', async t => {
  const tail = drivenTail(t)
  tail.loop.recordRead()
  await tail.pass(300)
  tail.latencyMs = 60_000
  await tail.pass(500)
  t.equal(tail.follower.headFor(tail.now()), undefined)
  const early = waitFor(tail)
  await tail.pass(10)
  t.notOk(early.isDone)
  await tail.pass(240)
  t.ok(early.isDone, `${early.tookMs} ms`)
  const late = waitFor(tail)
  await tail.pass(5)
  t.ok(late.isDone)
  t.equal(tail.follower.state, 'following')
})

t.test('a read waits no longer once the tail is interrupted', async t => {
  const tail = drivenTail(t)
  tail.loop.recordRead()
  await tail.pass(300)
  tail.servedVersion = 900n
  const read = waitFor(tail)
  await tail.pass(50)
  tail.follower.setState('interrupted', 'no upstream responds')
  await tail.pass(10)
  t.ok(read.isDone && Number(read.tookMs) <= 70, `${read.tookMs} ms`)
})
