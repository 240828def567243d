import t, { type Test } from 'tap'
import { startIdleMeter, until } from '../support/until.js'
import { type RedisProcess, startRedis } from '../support/redis-server.js'
import {
  checkDegraded,
  checkResponse,
  checkShared,
  isRedisUp,
  marginMs,
  readiness,
  redisErrorsOf,
  slowestOf,
  startReplicaPair,
  untilShared
} from '../support/replicas.js'
import { type TcpGate, slowRedis } from '../support/tcp-gate.js'

const timeoutMs = 250

interface Fault {
  readonly name: string
  /** True if nothing comes back, so that a read waits for its whole Redis timeout. */
  readonly isSilent: boolean
  /** True if no simulated network is between varve and the server. */
  readonly isDirect?: boolean
  /** Message that an operator sees. */
  readonly reason: RegExp
  readonly begin: (redis: RedisProcess, net: TcpGate) => void | Promise<void>
  readonly end: (redis: RedisProcess, net: TcpGate) => void | Promise<void>
}

const faults: Fault[] = [
  {
    name: 'is killed and comes back empty',
    isDirect: true,
    isSilent: false,
    reason: /^Redis unreachable: .*ECONNREFUSED/,
    begin: async redis => {
      await redis.kill()
    },
    end: async redis => {
      await redis.start()
    }
  },
  {
    name: 'is gone from behind what takes its connections',
    isSilent: false,
    reason: /^Redis unreachable: connection closed/,
    begin: async redis => {
      await redis.kill()
    },
    end: async redis => {
      await redis.start()
    }
  },
  {
    name: 'is frozen and goes on',
    isSilent: true,
    reason: /^Redis unreachable: timed out/,
    begin: redis => {
      redis.freeze()
    },
    end: redis => {
      redis.thaw()
    }
  },
  {
    name: 'responds slower than a read may wait',
    isSilent: true,
    reason: /^Redis unreachable: timed out/,
    begin: (_, net) => {
      net.delayMs = 3 * timeoutMs
    },
    end: (_, net) => {
      net.delayMs = 0
    }
  },
  {
    name: 'responds with something that is not its protocol',
    isSilent: false,
    reason: /^Redis unreachable: Unknown RESP type/,
    begin: (_, net) => {
      net.scriptedResponse = () => 'HTTP/1.1 400 Bad Request\r\n\r\n'
    },
    end: (_, net) => {
      net.scriptedResponse = undefined
    }
  },
  {
    name: 'cuts its connections and takes no new ones',
    isSilent: false,
    reason: /^Redis unreachable: ./,
    begin: (_, net) => {
      net.isRejecting = true
      net.dropConnections()
    },
    end: (_, net) => {
      net.isRejecting = false
    }
  },
  {
    name: 'gets another password',
    isSilent: false,
    reason: /^Redis authentication failed: NOAUTH/,
    begin: async ({ client }, net) => {
      await client.config('SET', 'requirepass', 'other')
      net.dropConnections()
    },
    end: async ({ client }) => {
      await client.config('SET', 'requirepass', '')
    }
  }
]

for (const fault of faults) {
  t.test(`a Redis that ${fault.name} costs a read its timeout at most, then nothing, and recovers`, async t => {
    await suffer(t, fault)
  })
}

async function suffer (t: Test, { begin, end, isSilent, isDirect = false, reason }: Fault): Promise<void> {
  const redis = await startRedis(t)
  const net = await slowRedis(t, redis)
  const pair = await startReplicaPair(t, { url: isDirect ? redis.url : net.url, timeoutMs })
  const { first, second, upstream, newTarget } = pair
  const targets = (count: number): string[] => Array.from({ length: count }, newTarget)
  await checkShared(t, pair, 'it is shared before')
  t.ok(await isRedisUp(second))
  t.same((await readiness(second)).degraded, [])
  const before = await redisErrorsOf(second)

  await begin(redis, net)
  const costly = await slowestOf(t, second, targets(12))
  t.ok(costly < timeoutMs + marginMs, `the slowest read took ${Math.round(costly)} ms`)
  await until(async () => !await isRedisUp(second), 'varve_redis_up is 0')
  if (isSilent) t.ok(costly > timeoutMs * 0.9, 'a read did wait for it')
  // Waits for more than one failed probe.
  const tried = ({ connect = 0, probe = 0 }: Record<string, number>): number => connect + probe
  await until(
    async () => tried(await redisErrorsOf(second)) >= tried(before) + 2,
    'the errors of trying again are counted'
  )
  t.notOk(await isRedisUp(second), 'varve_redis_up is still 0')
  await checkDegraded(t, second, reason)
  const errors = await redisErrorsOf(second)
  if (isSilent) t.ok((errors.get ?? 0) >= (before.get ?? 0) + 1, 'the read errors are counted too')
  t.same(Object.keys(errors).sort(), [
    'connect',
    'control',
    'delete',
    'find',
    'get',
    'index',
    'lease',
    'limit',
    'probe',
    'publish',
    'set',
    'tail'
  ], 'labels of the closed list')

  const missed = targets(20)
  const waited = startIdleMeter()
  await slowestOf(t, second, missed)
  const eachMs = waited() / missed.length
  t.ok(eachMs < timeoutMs / 3, `a read took ${eachMs.toFixed(1)} ms while it was known to be down`)
  t.same((await redisErrorsOf(second)).get, errors.get, 'no read was sent to it')

  await end(redis, net)
  const endedMs = performance.now()
  await until(async () => await isRedisUp(first) && await isRedisUp(second), 'both replicas reach Redis')
  const backMs = performance.now() - endedMs
  t.ok(backMs < 3500, `it was used again after ${Math.round(backMs)} ms`)
  await until(async () => (await readiness(second)).degraded.length === 0, 'nothing is degraded')
  await untilShared(pair)
  await checkShared(t, pair, 'it is shared again')
  const isWritten = (names: readonly string[], target: string): boolean =>
    names.some(name => name.includes(target.split('/')[3] ?? target))
  await until(async () => {
    const names = await redis.client.keys('*modules*')
    return missed.every(target => isWritten(names, target))
  }, 'the entries of the missed reads are in Redis')
  const requestCount = upstream.requests.length
  for (const target of missed) {
    const got = await first.get(target)
    checkResponse(t, got, target)
    t.equal(got.headers['cache-status'], 'varve; hit; detail=redis', 'entries cached meanwhile are shared')
  }
  t.equal(upstream.requests.length, requestCount, 'and the upstream gets no read for it')
}
