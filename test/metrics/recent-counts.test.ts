import t from 'tap'
import { Metrics } from '../../src/metrics/metrics.js'
import { type Counts, RecentCounts, MergedRecentCounts, type RecentSnapshot } from '../../src/metrics/recent-counts.js'
import { outcomeNames } from '../../src/proxy/outcomes.js'

const zero = new Metrics().countsWithFaults
const began = 1_750_000_000_000

/** Recent counts of a process whose clock and counts the test controls. */
function counting () {
  const clock = { ms: began }
  let counts = zero
  const recent = new RecentCounts(() => counts, () => clock.ms)
  return {
    clock,
    recent,
    countResponses: (count: number, outcome: keyof Counts['outcomes'] = 'miss') => {
      counts = { ...counts, outcomes: { ...counts.outcomes, [outcome]: counts.outcomes[outcome] + count } }
    }
  }
}

const misses = ({ outcomes: { miss } }: RecentSnapshot): number[] => [...miss]

t.test('each step has its own counts, including empty steps and the current one', async t => {
  const { clock, recent, countResponses } = counting()
  t.same(misses(recent.snapshot), [0], 'a new process has one step')
  countResponses(3)
  t.same(misses(recent.snapshot), [3], 'counts show at once')
  t.same(misses(recent.snapshot), [3], 'each request counts once')
  clock.ms += 4999
  countResponses(1)
  countResponses(2, 'hit_memory')
  t.match(recent.snapshot, {
    stepMs: 5000,
    lastStepMs: began,
    outcomes: { ...Object.fromEntries(outcomeNames.map(name => [name, [0]])), miss: [4], hit_memory: [2] },
    pruned: { cache: [0], local: [0], upstream: [0] }
  })
  clock.ms += 1
  countResponses(5)
  t.same(misses(recent.snapshot), [4, 5])
  clock.ms += 15_000
  t.same(misses(recent.snapshot), [4, 5, 0, 0, 0])
  t.equal(recent.snapshot.lastStepMs, began + 20_000)
})

t.test('recent counts cover ten minutes, however long a process runs and however late it is read', async t => {
  const { clock, recent, countResponses } = counting()
  for (let step = 0; step < 500; step++) {
    countResponses(step)
    recent.tick()
    clock.ms += 5000
  }
  clock.ms -= 5000
  t.equal(recent.size, 121)
  t.same(misses(recent.snapshot), Array.from({ length: 121 }, (_, at) => 379 + at))
  clock.ms += 86_400_000
  countResponses(7)
  t.same(misses(recent.snapshot), [...Array.from({ length: 120 }, () => 0), 7])
  t.equal(recent.size, 1)
})

t.test('after a clock jump a new process is merged with the others and hides none of their counts', async t => {
  for (const jumpMs of [3_600_000, 60_000, -60_000, -86_400_000]) {
    const [old, young] = [counting(), counting()]
    let ms = began
    const all = new MergedRecentCounts(() => ms, () => zero)
    old.clock.ms = ms = began + 10_000
    young.clock.ms = began + jumpMs
    const after = new RecentCounts(
      () => ({ ...zero, outcomes: { ...zero.outcomes, miss: young.clock.ms - began - jumpMs } }),
      () => young.clock.ms
    )
    old.countResponses(3)
    young.clock.ms += 5
    all.update(old, old.recent.snapshot)
    all.update(young, after.snapshot)
    t.same(misses(all.snapshot), [0, 0, 8], `by ${jumpMs} ms`)
    t.equal(all.snapshot.lastStepMs, ms)
    all.remove(young)
    ms += 5000
    t.same(misses(all.snapshot), [0, 0, 8, 0], 'its counts stay in their step when it ends')
  }
})

t.test('counts of an ended process stay until they are ten minutes old', async t => {
  const worker = counting()
  let ms = began
  const all = new MergedRecentCounts(() => ms, () => zero)
  worker.countResponses(4)
  all.update(worker, worker.recent.snapshot)
  all.remove(worker)
  worker.countResponses(90)
  all.update(worker, worker.recent.snapshot)
  t.same(misses(all.snapshot), [4], 'reports after its end are ignored')
  all.remove({})
  const other = counting()
  other.clock.ms = ms = began + 5000
  other.countResponses(2)
  all.update(other, other.recent.snapshot)
  t.same(misses(all.snapshot), [4, 2])
  ms = began + 600_000
  t.same(misses(all.snapshot).slice(0, 3), [4, 2, 0])
  ms = began + 605_000
  t.same(misses(all.snapshot).slice(0, 3), [2, 0, 0])
  t.equal(misses(all.snapshot).length, 121)
})
