import { pino } from 'pino'
import t from 'tap'
import { Following, type FollowingParts, type HostTailParts } from '../../src/app/following.js'
import { Tracker } from '../../src/chain/tracker.js'
import { configSchema } from '../../src/config/schema.js'
import { Metrics } from '../../src/metrics/metrics.js'
import { stampedAt, transactionAt } from '../support/tail.js'
import { until } from '../support/until.js'
import { varveAtSandbox } from '../support/varve.js'

t.test('a head of another chain from the worker that reads the tail ends following here', async t => {
  const tracker = new Tracker(undefined, () => performance.now())
  // Parts that only the worker that reads the tail needs are left out.
  const following = new Following(configSchema.parse({ follow: { mode: 'on' } }), {
    tracker,
    log: pino({ level: 'silent' }),
    now: () => performance.now(),
    metrics: new Metrics(),
    peers: { publish: () => {} }
  } as unknown as FollowingParts)
  const receive = (version: number, chainShift = 0n): void => {
    const { family, position } = stampedAt(version)
    const head = { ...position.head, timestampUsec: position.head.timestampUsec + chainShift }
    following.onEvent({
      kind: 'update',
      update: {
        begins: false,
        transactions: [transactionAt(version)],
        stamped: { family, position: { ...position, head } },
        sentAtMs: Number(process.hrtime.bigint() / 1000n) / 1000
      }
    })
  }
  const { family, position } = stampedAt(100)
  tracker.learn(position, family)
  receive(101)
  const { follower } = following
  t.same([follower?.state, follower?.head?.version, tracker.position?.head.version], ['following', 101n, 101n])
  receive(90, 1_000_000n)
  t.same([follower?.state, follower?.head, tracker.position?.head.version], ['starting', undefined, 101n])
  receive(102)
  t.same([follower?.state, follower?.head?.version, tracker.position?.head.version], ['following', 102n, 102n])
})

t.test('another history at a reader makes all workers forget what entries have grown by', async t => {
  const log: string[] = []
  let different = (_reason: string): void => {}
  // Parts that reading an upstream needs are left out.
  const workerOf = (name: string, publish: FollowingParts['peers']['publish']): Following =>
    new Following(configSchema.parse({ follow: { mode: 'on' } }), {
      tracker: new Tracker(undefined, () => performance.now()),
      upstreamPool: { fetchAside: async () => undefined },
      headPollers: { reverifyAll: async () => {} },
      log: pino({ level: 'silent' }),
      now: () => performance.now(),
      metrics: new Metrics(),
      peers: { publish },
      hostTailOf: ({ onDifferent }: HostTailParts) => {
        different = onDifferent
      },
      memory: { invalidateFollowed: () => log.push(name) }
    } as unknown as FollowingParts)
  const other = workerOf('other', () => {})
  const reader = workerOf('reader', message => {
    if (message.kind === 'tail') other.onEvent(message.event)
  })
  t.teardown(() => {
    reader.close()
  })
  reader.lead()
  reader.reset()
  t.same(log, [], 'a reset leaves the space')
  different('an upstream of this host has another root at version 5')
  t.same(log, ['reader', 'other'])
})

t.test('the tail is read before the reads of many clients that wait for a slot', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, { blocks: 1030 }, {
    upstream: { maxConcurrent: 2 },
    trustProxy: ['127.0.0.1'],
    follow: { mode: 'on', maxAgeMs: 300, verify: 0 }
  })
  await varve.get('/v1/accounts/0x1/module/coin')
  await until(async () => sandbox.requests.countFor('transactions') > 0, 'it follows')
  const slow = sandbox.faults.add({ kind: 'slow', ms: 150, match: 'account_modules' })
  sandbox.requests.reset()
  const queued = Array.from(
    { length: 14 },
    async (_, at) =>
      await varve.get(`/v1/accounts/0x1/modules?ledger_version=${2000 + at}`, {
        headers: { 'x-forwarded-for': `192.0.2.${at}` }
      })
  )
  await Promise.race(queued)
  await until(async () => sandbox.requests.countFor('transactions') >= 5, 'the tail was read')
  t.ok(sandbox.requests.countFor('account_modules') < 14, 'reads still wait')
  t.ok((await Promise.all(queued)).every(({ status }) => status === 200))
  slow.remove()
})
