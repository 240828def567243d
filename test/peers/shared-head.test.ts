import { setImmediate as immediate } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { Space } from '../../src/chain/space.js'
import { Tracker, ChainEvents } from '../../src/chain/tracker.js'
import { type SharedHeadMessage } from '../../src/peers/messages.js'
import { type Records, HostRecords } from '../../src/peers/records.js'
import { SharedHead } from '../../src/peers/shared-head.js'
import { stampedAt } from '../support/tail.js'
import { startIdleMeter, until } from '../support/until.js'

/** One process, whose clock may run ahead and whose place may fail. */
class Process {
  readonly tracker: Tracker
  readonly head: SharedHead
  aheadMs = 0
  isAway = false
  /** True to lose the messages of other processes. */
  isDeaf = false
  /** Time that messages take to this process. */
  delayMs = 0
  /** True to lose its own messages too. */
  isCutOff = false
  last: SharedHeadMessage | undefined

  constructor (t: Test, all: Process[], texts: Records) {
    const now = (): number => performance.now() + this.aheadMs
    const events = new ChainEvents()
    this.tracker = new Tracker(undefined, now, events, true)
    const reject = (): never => {
      throw new Error('away')
    }
    this.head = new SharedHead({
      tracker: this.tracker,
      records: {
        read: async name => this.isAway ? reject() : await texts.read(name),
        replace: async (...change) => this.isAway ? reject() : await texts.replace(...change)
      },
      publish: message => {
        this.last = message
        const { space } = this.tracker
        for (const other of all) {
          const deliver = (): void => {
            // Peers drop messages of another space.
            const isHeard = !other.isCutOff && (!other.isDeaf || other === this) && other.tracker.space === space
            if (isHeard) other.head.onMessage(message)
          }
          if (other.delayMs === 0) setImmediate(deliver)
          else setTimeout(deliver, other.delayMs)
        }
      },
      isEchoed: true,
      now
    })
    this.tracker.join(this.head)
    events.servedHeadAdvanced.subscribe(() => {
      this.head.update()
    })
    this.tracker.setSpace(space, undefined, false)
    all.push(this)
    t.teardown(async () => {
      await this.head.stop()
    })
    this.head.start()
  }

  learn (version: number): void {
    const { position, family } = stampedAt(version)
    this.tracker.learn(position, family)
  }

  get served (): bigint | undefined {
    return this.tracker.position?.head.version
  }
}

const space = Space.begin(4)

function placeOf (t: Test): () => Process {
  const [all, texts]: [Process[], Records] = [[], new HostRecords()]
  return () => new Process(t, all, texts)
}

async function untilServing (...processes: Process[]): Promise<void> {
  for (const { head } of processes) await until(() => head.fault === undefined, 'it is a member', 10_000)
}

t.jobs = 4

t.test('without a chain no read waits for others, since nothing is served', async t => {
  const tracker = new Tracker(undefined, () => 0, new ChainEvents(), true)
  const head = new SharedHead({
    tracker,
    records: new HostRecords(),
    publish: () => {},
    isEchoed: true,
    now: () => 0
  })
  await t.resolves(head.reach(undefined))
})

t.test('a head is served once all processes have it, and held while one lacks it', async t => {
  const start = placeOf(t)
  const [one, two] = [start(), start()]
  one.learn(100)
  await untilServing(one, two)
  await until(() => two.head.has(100n), 'both have it')
  two.isDeaf = true
  one.learn(200)
  t.equal(one.served, 100n)
  t.notOk(one.head.has(200n))
  two.isDeaf = false
  await one.head.reach(200n)
  t.equal(one.served, 200n)
})

t.test('a process that stops leaves, and one that dies is waited for no longer than it could serve', async t => {
  const start = placeOf(t)
  const [one, two, three] = [start(), start(), start()]
  one.learn(100)
  await untilServing(one, two, three)
  await two.head.stop()
  two.isDeaf = three.isDeaf = true
  // Stops its beats without a word.
  three.isAway = true
  const began = performance.now()
  const idle = startIdleMeter()
  one.learn(200)
  await one.head.reach(200n)
  t.ok(performance.now() - began > 1000, 'three may still serve the old head')
  t.ok(idle() < 2700, `after ${idle()} ms`)
  t.match(three.head.fault, { isServing: true }, 'three promises nothing by then')
})

t.test('a process that lapsed is 503 until each member knows it again', async t => {
  const start = placeOf(t)
  const [one, two] = [start(), start()]
  one.learn(100)
  await untilServing(one, two)
  await until(() => two.head.has(100n), 'both have it')
  two.aheadMs += 2500
  t.equal(two.head.has(100n), false)
  t.match(two.head.fault, { isServing: false })
  await t.rejects(two.head.reach(0n), new Error('this process of varve catches up with the others'))
  await untilServing(two)
  await two.head.reach(100n)
})

t.test('a member that another holds for gone lapses, although its own clock has not noticed', async t => {
  const start = placeOf(t)
  const [one, two] = [start(), start()]
  one.learn(100)
  await untilServing(one, two)
  await until(() => one.last?.promised === 100n && two.last?.promised === 100n, 'both promise it')
  const { last } = one
  if (last !== undefined) two.head.onMessage({ ...last, nth: last.nth + 1000, members: [] })
  t.match(two.head.fault, { isServing: false })
})

t.test('a process whose place fails promises nothing and serves on, until it joins again', async t => {
  const start = placeOf(t)
  const one = start()
  one.learn(100)
  await untilServing(one)
  one.isAway = true
  await until(() => one.head.fault?.isServing === true, 'it is parted', 10_000)
  one.learn(200)
  await one.head.reach(200n)
  t.equal(one.served, 200n)
  one.isAway = false
  await untilServing(one)
  await one.head.reach(200n)
})

t.test('processes that no message reaches serve their own heads two seconds after their lapse', async t => {
  const start = placeOf(t)
  const both = [start(), start()]
  for (const each of both) each.learn(100)
  await untilServing(...both)
  for (const each of both) each.isCutOff = true
  for (const { head } of both) await until(() => head.fault?.isServing === false, 'it lapses')
  const idle = startIdleMeter()
  for (const { head } of both) await until(() => head.fault?.isServing === true, 'it serves its own heads')
  t.ok(idle() < 4000, `after ${idle()} ms`)
  for (const each of both) each.isCutOff = false
  await untilServing(...both)
})

t.test('heads of another chain are forgotten, those of another space of the chain are not', async t => {
  const start = placeOf(t)
  const [one, two] = [start(), start()]
  one.learn(1000)
  await untilServing(one, two)
  await until(() => two.head.has(1000n), 'both have it')
  one.tracker.setSpace(Space.begin(4), undefined, true)
  one.head.changeSpace()
  t.ok(one.head.has(1000n))
  one.tracker.setSpace(Space.begin(4), undefined, false)
  one.head.changeSpace()
  t.equal(one.head.has(0n), false)
  await untilServing(one)
  t.equal(one.served, undefined)
  one.learn(10)
  await one.head.reach(10n)
  t.equal(one.served, 10n)
})

t.test('a process that served alone promises nothing before the others have its head', async t => {
  const start = placeOf(t)
  const [one, two] = [start(), start()]
  one.learn(5)
  two.learn(5)
  await untilServing(one, two)
  two.isAway = two.isCutOff = true
  await until(() => two.head.fault?.isServing === true, 'it serves its own heads', 10_000)
  two.isAway = two.isCutOff = false
  one.delayMs = 20
  let servedAlone = 5
  // Looks between any two messages, and serves newer heads alone until it is a member.
  const deadline = performance.now() + 10_000
  while (two.head.fault !== undefined && performance.now() < deadline) {
    if (two.head.fault.isServing) two.learn(++servedAlone)
    await immediate()
  }
  t.equal(two.head.fault, undefined)
  t.ok((one.served ?? 0n) >= servedAlone, `${one.served} and ${servedAlone}`)
})
