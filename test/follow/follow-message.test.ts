import t from 'tap'
import { type FollowDemand, RemoteTail } from '../../src/follow/follow-message.js'

function remote () {
  const clock = { ms: 0 }
  const sent: FollowDemand[] = []
  const tail = new RemoteTail(demand => sent.push(demand), () => clock.ms)
  return { clock, sent, tail }
}

t.test('a demand goes to the reading process once a second, with the reads saved since', async t => {
  const { clock, sent, tail } = remote()
  for (let nth = 0; nth < 3000; nth++) {
    clock.ms = nth
    tail.recordRead()
    tail.recordSaved()
  }
  t.same(sent, [
    { saved: 0, isUrgent: false },
    { saved: 1000, isUrgent: false },
    { saved: 1000, isUrgent: false }
  ])
})

t.test('a read that waits asks at once, and many that wait ask once', async t => {
  const { clock, sent, tail } = remote()
  tail.recordSaved()
  for (clock.ms = 0; clock.ms < 40; clock.ms++) tail.wake()
  t.same(sent, [{ saved: 1, isUrgent: true }, { saved: 0, isUrgent: true }])
  tail.recordRead()
  t.equal(sent.length, 2, 'an urgent demand is a demand')
})
