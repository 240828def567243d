import t from 'tap'
import { UpstreamSoftwareReleases } from '../../src/upstreams/upstream-software-releases.js'

function releasesAt (
  isUp: (upstream: string) => boolean = () => true
): { releases: UpstreamSoftwareReleases, now: { s: number } } {
  const now = { s: 0 }
  return { releases: new UpstreamSoftwareReleases(() => now.s * 1000, isUp), now }
}

t.test('while no own release is known, no release is retired, whatever other replicas report', async t => {
  const { releases } = releasesAt()
  t.equal(releases.isRetiredRelease('a'), false)
  releases.replacePeerReleases(['b'])
  t.equal(releases.isRetiredRelease('a'), false)
  t.same(releases.own, [])
})

t.test('a release that the own upstream has left is retired, unless another replica reports it', async t => {
  const { releases, now } = releasesAt()
  releases.record('a')
  releases.replacePeerReleases(['a'])
  now.s = 15
  releases.record('b')
  t.same(releases.own, ['b'])
  t.equal(releases.isRetiredRelease('a'), false)
  t.equal(releases.isRetiredRelease('b'), false)
  releases.replacePeerReleases(['b'])
  t.equal(releases.isRetiredRelease('a'), true)
  t.equal(releases.isRetiredRelease('b'), false)
  releases.replacePeerReleases([])
  t.equal(releases.isRetiredRelease('b'), false, 'the last release of the own upstream is never retired')
})

t.test('two releases that alternate behind one address are both live while both are seen', async t => {
  const { releases, now } = releasesAt()
  releases.record('a')
  now.s = 15
  releases.record('b')
  t.equal(releases.isRetiredRelease('a'), true, 'as far as is known yet')
  for (const release of ['a', 'b', 'b', 'a', 'a', 'b', 'b', 'b']) {
    now.s += 15
    releases.record(release)
    t.same([releases.isRetiredRelease('a'), releases.isRetiredRelease('b')], [false, false], String(now.s))
    t.same([...releases.own].sort(), ['a', 'b'])
  }
  for (let polls = 0; polls < 3; polls++) {
    now.s += 15
    releases.record('b')
  }
  t.equal(releases.isRetiredRelease('a'), true, 'the old release was last seen a minute ago')
  t.same(releases.own, ['b'])
})

t.test('a release seen again after more than a minute is a rollback, and the other is retired', async t => {
  const { releases, now } = releasesAt()
  releases.record('a')
  now.s = 30
  releases.record('b')
  now.s = 75
  releases.record('b')
  releases.record('a')
  t.equal(releases.isRetiredRelease('b'), true)
  t.same(releases.own, ['a'])
})

t.test('releases that have not been seen for a long time are removed, so memory is bounded', async t => {
  const { releases, now } = releasesAt()
  for (let nth = 0; nth < 500; nth++) {
    now.s += 1
    releases.record(`r${nth}`)
    releases.record(`r${Math.max(0, nth - 1)}`)
  }
  t.ok(releases.own.length <= 62, String(releases.own.length))
})

t.test('each upstream has its own release, and one that is down has none', async t => {
  const up = new Set(['n1', 'n2'])
  const { releases, now } = releasesAt(upstream => up.has(upstream))
  releases.record('a', 'n1')
  releases.record('b', 'n2')
  t.same([releases.isRetiredRelease('a'), releases.isRetiredRelease('b')], [false, false])
  t.same([...releases.own].sort(), ['a', 'b'])
  up.delete('n1')
  t.same([releases.isRetiredRelease('a'), releases.isRetiredRelease('b')], [true, false])
  up.add('n1')
  now.s = 15
  releases.record('b', 'n1')
  t.same([releases.isRetiredRelease('a'), releases.own.join()], [true, 'b'])
})

t.test('while no upstream is up, no release is retired', async t => {
  const { releases } = releasesAt(() => false)
  releases.record('b', 'n1')
  t.equal(releases.isRetiredRelease('a'), false)
})
