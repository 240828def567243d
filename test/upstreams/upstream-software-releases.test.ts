import t from 'tap'
import { UpstreamSoftwareReleases } from '../../src/upstreams/upstream-software-releases.js'

/** A second, the release that a poll sees then, and the upstream that was polled. */
type Poll = readonly [second: number, release: string, upstream?: string]

/** Returns releases after these polls. */
function releasesAfter (polls: readonly Poll[], isUp: (upstream: string) => boolean = () => true) {
  let now = 0
  const releases = new UpstreamSoftwareReleases(() => now * 1000, isUp)
  for (const [second, ...seen] of polls) {
    now = second
    releases.record(...seen)
  }
  return releases
}

/** Returns which of two releases are retired. */
const retiredOf = (releases: UpstreamSoftwareReleases): string =>
  ['a', 'b'].filter(release => releases.isRetiredRelease(release)).join()

t.test('a release is retired once no upstream that is up has it, and never the last one', async t => {
  const alternating = ['a', 'b', 'a', 'b', 'b', 'a', 'a', 'b', 'b', 'b'].map((release, at): Poll => [15 * at, release])
  const later = [150, 165, 180].map((second): Poll => [second, 'b'])
  const cases: Array<[why: string, polls: Poll[], own: string, retired: string, down?: string]> = [
    ['no own release is known', [], '', ''],
    ['as far as is known yet', alternating.slice(0, 2), 'b', 'a'],
    ['two alternate behind one address', alternating.slice(0, 3), 'a,b', ''],
    ['also when one is not seen for some polls', alternating, 'a,b', ''],
    ['the old one was last seen a minute ago', [...alternating, ...later], 'b', 'a'],
    ['a rollback after more than a minute', [[0, 'a'], [30, 'b'], [75, 'b'], [75, 'a']], 'a', 'b'],
    ['each upstream has its own', [[0, 'a', 'n1'], [0, 'b', 'n2']], 'a,b', ''],
    ['one that is down has none', [[0, 'a', 'n1'], [0, 'b', 'n2']], 'b', 'a', 'n1'],
    ['both have the new one', [[0, 'a', 'n1'], [0, 'b', 'n2'], [15, 'b', 'n1']], 'b', 'a'],
    ['none is up', [[0, 'b', 'n1']], '', '', 'n1']
  ]
  for (const [why, polls, own, retired, down] of cases) {
    const releases = releasesAfter(polls, upstream => upstream !== down)
    t.same([[...releases.own].sort().join(), retiredOf(releases)], [own, retired], why)
  }
})

t.test('a release that another replica reports is not retired, and none while no own one is known', async t => {
  const cases: Array<[polls: Poll[], peers: string[], retired: string]> = [
    [[], ['b'], ''],
    [[[0, 'a'], [15, 'b']], ['a'], ''],
    [[[0, 'a'], [15, 'b']], ['b'], 'a'],
    [[[0, 'a'], [15, 'b']], [], 'a']
  ]
  for (const [polls, peers, retired] of cases) {
    const releases = releasesAfter(polls)
    releases.replacePeerReleases(peers)
    t.equal(retiredOf(releases), retired, `${polls.length} ${peers.join()}`)
  }
})

t.test('releases that have not been seen for a long time are removed, so memory is bounded', async t => {
  const { own } = releasesAfter(
    Array.from({ length: 1000 }, (_, nth): Poll => [(nth >> 1) + 1, `r${Math.max(0, (nth >> 1) - nth % 2)}`])
  )
  t.ok(own.length <= 62, String(own.length))
})
