import t from 'tap'
import {
  isPollDue,
  isPolledForWaiters,
  mayPollBesideHanging,
  type PolledUpstream,
  pollIntervalMs,
  pollTimeoutMs
} from '../../src/upstreams/polling-policy.js'

const upstream = ({ isUp = true, isVerified = true, isBackingOff = false, ageMs = 0 } = {}): PolledUpstream => ({
  isUp,
  isVerified,
  health: { isUp, isBackingOff },
  windowTracker: { ageMs }
})

t.test('an upstream is polled when it is idle, down or unverified, and not while it rate limits us', async t => {
  const cases: Array<[PolledUpstream, boolean]> = [
    [upstream(), false],
    [upstream({ ageMs: 999 }), false],
    [upstream({ ageMs: 1000 }), true],
    [upstream({ isUp: false }), true],
    [upstream({ isVerified: false }), true],
    [upstream({ ageMs: 1000, isBackingOff: true }), false],
    [upstream({ isUp: false, isBackingOff: true }), false]
  ]
  for (const [one, isDue] of cases) {
    t.equal(isPollDue(one, 1000, 1000), isDue)
    t.equal(isPollDue(one, 1000, 15_000), true, 'its release is read every 15 s')
  }
})

t.test('a request that waits polls healthy upstreams with free slots only', async t => {
  t.equal(isPolledForWaiters(upstream(), false), true)
  t.equal(isPolledForWaiters(upstream(), true), false)
  t.equal(isPolledForWaiters(upstream({ isUp: false }), false), false)
  t.equal(isPolledForWaiters(upstream({ isBackingOff: true }), false), false)
})

t.test('a poll is due within a second, and at most eight overlap, each within 7 s but the first', async t => {
  t.same([10, 1000, 600_000].map(pollIntervalMs), [10, 1000, 1000])
  t.same([
    mayPollBesideHanging(1, 899),
    mayPollBesideHanging(1, 900),
    mayPollBesideHanging(7, 900),
    mayPollBesideHanging(8, 900)
  ], [false, true, true, false])
  t.same([pollTimeoutMs(60_000), pollTimeoutMs(500), pollTimeoutMs(60_000, true)], [7000, 500, 60_000])
})
