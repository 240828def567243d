import t from 'tap'
import { FetchLeases, HostLeases } from '../../src/peers/fetch-leases.js'
import { startIdleMeter } from '../support/until.js'

/** Creates the leases of three workers, on a clock that the test advances. */
function tableAt () {
  const clock = { ms: 0 }
  const worker = (): { isListening: boolean } => ({ isListening: true })
  const workers = [worker(), worker(), worker()] as const
  return { clock, workers, leases: new HostLeases<{ isListening: boolean }>(() => clock.ms) }
}

t.test('one worker holds a lease, and its end names those that wait, once', async t => {
  const { workers: [holder, other, third], leases } = tableAt()
  t.equal(leases.take(holder, 'read', 'a', 2000), 0)
  t.same([leases.take(other, 'read', 'b', 2000), leases.take(third, 'read', 'c', 2000)], [2000, 2000])
  t.equal(leases.end('read', 'b'), false, 'of another')
  t.equal(leases.end('read', 'a'), true)
  t.same([...leases.takeWaiters('read', 'b')], [])
  t.same([...leases.takeWaiters('read', 'a')], [other, third])
  t.same([...leases.takeWaiters('read', 'a')], [])
  t.equal(leases.take(other, 'read', 'd', 2000), 0)
  t.equal(leases.end('read', 'd'), false, 'no worker waits')
})

t.test('a lease ends with its time unless it is renewed, and with its worker', async t => {
  const { clock, workers: [holder, other], leases } = tableAt()
  leases.take(holder, 'read', 'a', 2000)
  clock.ms = 1500
  leases.renew('read', 'a', 2000)
  leases.renew('read', 'b', 9000)
  clock.ms = 3000
  t.equal(leases.take(other, 'read', 'b', 2000), 500, 'the time that is left')
  clock.ms = 3500
  t.equal(leases.take(other, 'read', 'b', 2000), 0)
  leases.renew('read', 'a', 9000)
  other.isListening = false
  t.equal(leases.take(holder, 'read', 'c', 2000), 0)
})

t.test('after a purge began, nothing that was fetched before it reaches those that wait', async t => {
  const { workers: [holder, other], leases } = tableAt()
  leases.take(holder, 'read', 'a', 2000)
  leases.take(other, 'read', 'b', 2000)
  t.equal(leases.end('read', 'a'), true)
  t.same(leases.endAll(), [['read', new Set([other])]])
  t.same([...leases.takeWaiters('read', 'a')], [])
  leases.renew('read', 'a', 2000)
  t.equal(leases.take(other, 'read', 'b', 2000), 0)
})

t.test('leases of workers that are gone are dropped beyond ten thousand', async t => {
  const { clock, workers: [holder], leases } = tableAt()
  for (let nth = 0; nth < 10_000; nth++) leases.take(holder, String(nth), 'a', 2000)
  clock.ms = 2000
  leases.take(holder, 'one more', 'a', 2000)
  t.equal(leases.endAll().length, 1)
})

t.test('a read that waits for a lease asks again as soon as that may have ended', async t => {
  const lefts = [100, 0]
  const results: string[] = []
  const leases = new FetchLeases({
    places: [{
      isUsable: true,
      sendsEntries: false,
      lastPurge: '',
      take: async () => lefts.shift() ?? NaN,
      renew: async () => {},
      end: async () => {}
    }],
    now: () => performance.now(),
    leased: result => results.push(result)
  })
  const idle = startIdleMeter()
  const lease = await leases.take('a key')
  t.ok(idle() < 1000, `after ${idle()} ms`)
  t.same(results, ['lapsed', 'taken'])
  lease?.end(false)
})
