import t from 'tap'
import { type TailDemand } from '../../src/follow/follow-message.js'
import { TailDemandSender } from '../../src/follow/tail-demand-sender.js'

function demandSender () {
  const clock = { ms: 0 }
  const sent: TailDemand[] = []
  const sender = new TailDemandSender(demand => sent.push(demand), () => clock.ms)
  return { clock, sent, sender }
}

t.test('a demand goes to the reading process once a second, with the reads saved since', async t => {
  const { clock, sent, sender } = demandSender()
  for (let nth = 0; nth < 3000; nth++) {
    clock.ms = nth
    sender.recordRead()
    sender.recordSaved()
  }
  t.same(sent, [
    { saved: 0, isUrgent: false },
    { saved: 1000, isUrgent: false },
    { saved: 1000, isUrgent: false }
  ])
})

t.test('a read that waits asks at once, and many that wait ask once', async t => {
  const { clock, sent, sender } = demandSender()
  sender.recordSaved()
  for (clock.ms = 0; clock.ms < 40; clock.ms++) sender.wake()
  t.same(sent, [{ saved: 1, isUrgent: true }, { saved: 0, isUrgent: true }])
  sender.recordRead()
  t.equal(sent.length, 2, 'an urgent demand is a demand')
})
