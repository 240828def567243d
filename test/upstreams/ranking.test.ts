import t from 'tap'
import { type Candidate, rankUpstreams, type UpstreamRequirements } from '../../src/upstreams/ranking.js'

interface Known extends Candidate {
  readonly name: string
}

const known = (
  name: string,
  window: [oldest: bigint, head: bigint] | undefined,
  { isWell: isHealthy = true, load = 0, isBelieved: isVerified = true, isFull = false } = {}
): Known => ({
  name,
  window: window && { oldest: window[0], head: window[1] },
  health: { isHealthy, load },
  isVerified,
  isFull
})

const anything: UpstreamRequirements = { version: undefined, minVersion: undefined, events: undefined }
const namesOf = (nodes: Known[], route: Partial<UpstreamRequirements>): string[] =>
  rankUpstreams(nodes, { ...anything, ...route }).map(({ name }) => name)

t.test('a version is read from upstreams whose window covers it or is unknown', async t => {
  const nodes = [known('archive', [0n, 900n]), known('pruned', [500n, 1000n]), known('new', undefined)]
  t.same(namesOf(nodes, { version: 100n }), ['archive', 'new'])
  t.same(namesOf(nodes, { version: 500n }), ['archive', 'pruned', 'new'])
  t.same(namesOf(nodes, { version: 900n }), ['archive', 'pruned', 'new'])
  t.same(
    namesOf(nodes, { version: 901n }),
    ['pruned', 'new', 'archive'],
    'a lagging upstream may have caught up, and ranks last'
  )
})

t.test('if no window covers the version, the nearest upstream ranks first and the others follow', async t => {
  const nodes = [known('lagging', [0n, 900n]), known('ahead', [500n, 1000n])]
  t.same(namesOf(nodes, { version: 1001n }), ['ahead', 'lagging'])
  t.same(namesOf([known('short', [500n, 1000n]), known('long', [100n, 1000n])], { version: 5n }), ['long', 'short'])
  t.same(namesOf([], { version: 5n }), [])
})

t.test('upstreams rank by health, then verification, then load', async t => {
  const nodes = [
    known('sick', [0n, 9n], { isWell: false }),
    known('busy', [0n, 9n], { load: 5 }),
    known('idle', [0n, 9n], { load: 1 })
  ]
  t.same(namesOf(nodes, {}), ['idle', 'busy', 'sick'])
  t.same(namesOf([known('doubted', [0n, 9n], { isBelieved: false }), ...nodes], {}), [
    'idle',
    'busy',
    'doubted',
    'sick'
  ])
  t.same(namesOf(nodes, { version: 5n }), ['idle', 'busy', 'sick'])
})

t.test('a free slot ranks before a low load, but not before a window that reaches minVersion', async t => {
  const nodes = [known('full', [0n, 1000n], { isFull: true }), known('slow', [0n, 900n], { load: 99 })]
  t.same(namesOf(nodes, { version: 5n }), ['slow', 'full'])
  t.same(namesOf(nodes, { minVersion: 1000n }), ['full', 'slow'])
})

t.test('event reads prefer the longest history whatever its load, but unhealthy upstreams are last', async t => {
  const nodes = [
    known('short', [500n, 1000n]),
    known('long', [10n, 900n], { load: 50 }),
    known('longest', [0n, 900n], { isWell: false })
  ]
  t.same(namesOf(nodes, { events: 'from' }), ['long', 'short', 'longest'])
})

t.test('minVersion prefers upstreams that have reached it, or else the highest head', async t => {
  const nodes = [
    known('behind', [0n, 900n]),
    known('there', [0n, 1000n], { load: 9 }),
    known('further', [0n, 1100n], { load: 5 }),
    known('new', undefined)
  ]
  t.same(namesOf(nodes, { minVersion: 1000n }), ['further', 'there', 'behind', 'new'])
  t.same(namesOf(nodes, { minVersion: 5000n }), ['further', 'there', 'behind', 'new'])
})
