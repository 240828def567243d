import { type ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import { type Sandbox } from '#sandbox'
import { cacheStatusHeader } from '../support/cache-status.js'
import { sendRequest, type TestResponse } from '../support/client.js'
import { FetchLeases, RedisLeases } from '../../src/peers/fetch-leases.js'
import { startProgram } from '../support/program.js'
import { type RedisProcess, startRedis } from '../support/redis-server.js'
import { isRedisUp, readiness, startSandboxNode, untilChainKnown } from '../support/replicas.js'
import { redisLinkTo } from '../support/redis-tier.js'
import {
  respondOk,
  respondToIndex,
  stamps,
  startChangingUpstream,
  startStubUpstream
} from '../support/stub-upstream.js'
import { together } from '../support/together.js'
import { startIdleMeter, until } from '../support/until.js'
import {
  allPidsOf,
  type ConfigChange,
  quietConfig,
  requestEachWorker,
  type TestVarve,
  token,
  varveAt
} from '../support/varve.js'

// Most of the time is waiting, so these tests run concurrently.
t.jobs = 3
const collapsed = 'varve; fwd=uri-miss; collapsed'
const modules = (version: number): string => `/v1/accounts/0x1/modules?ledger_version=${version}&limit=1`

/** Hosts that share a Redis. */
interface Fleet {
  readonly redis: RedisProcess
  readonly upstream: Sandbox
  readonly hosts: readonly TestVarve[]
}

/** Starts hosts in front of an upstream that is not near. */
async function startFleet (t: Test, count: number, change: ConfigChange = {}): Promise<Fleet> {
  const redis = await startRedis(t)
  const upstream = await startSandboxNode(t, { prunedBlocks: 0 })
  upstream.faults.add({ kind: 'slow', ms: 60 })
  const start = async (): Promise<TestVarve> =>
    await varveAt(t, upstream.url, { ...quietConfig, ...change, cache: { redis: { url: redis.url, timeoutMs: 1000 } } })
  const first = await start()
  await untilChainKnown(redis)
  const hosts = [first, ...await Promise.all(Array.from({ length: count - 1 }, start))]
  for (const host of hosts) {
    await until(async () => !/not read/.test(String((await readiness(host)).degraded)), 'the host reads from Redis')
  }
  return { redis, upstream, hosts }
}

/** Counts the leases of all hosts that ended in a way. */
async function leased (hosts: readonly TestVarve[], result: string): Promise<number> {
  const counts = hosts.map(async host => await host.metric(`varve_leases_total{kind="fetch",result="${result}"}`) ?? 0)
  return (await Promise.all(counts)).reduce((sum, each) => sum + each, 0)
}

async function leaseKeyIn ({ client }: RedisProcess): Promise<string> {
  return (await client.keys('*lease:*'))[0] ?? ''
}

/**
 * Waits for ten reads in a row of which each reaches the upstream once. A machine that stands still for seconds makes a
 * process fetch for itself for a minute, so a read before may reach it more often.
 */
async function untilOneAsks (requestsFor: () => Promise<number>): Promise<void> {
  let inRow = 0
  await until(
    async () => {
      inRow = await requestsFor() === 1 ? inRow + 1 : 0
      return inRow === 10
    },
    'ten reads in a row reach the upstream once',
    70_000
  )
}

t.test('of three hosts that miss a read at the same time one asks the upstream', together(), async t => {
  const { upstream, hosts } = await startFleet(t, 3)
  let version = 2000
  let statuses: string[] = []
  await untilOneAsks(async () => {
    const before = upstream.requests.countFor('account_modules')
    const target = modules(++version)
    const responses = await Promise.all(hosts.map(async host => await host.get(target)))
    t.same(new Set(responses.map(({ status, body }) => `${status} ${body}`)).size, 1)
    statuses = responses.map(({ headers }) => String(headers[cacheStatusHeader]))
    return upstream.requests.countFor('account_modules') - before
  })
  t.equal(statuses.filter(status => status === collapsed).length, 2, statuses.join())
})

t.test('workers of two hosts that miss a read at the same time ask the upstream once', together(), async t => {
  const { upstream, hosts } = await startFleet(t, 2, { workers: 2 })
  let version = 2000
  await untilOneAsks(async () => {
    const before = upstream.requests.countFor('account_modules')
    const target = modules(++version)
    await Promise.all([...hosts, ...hosts, ...hosts].map(async host => {
      t.match(await host.get(target), { status: 200 })
    }))
    return upstream.requests.countFor('account_modules') - before
  })
})

t.test('hosts wait for a slow fetch longer than its lease lasts, as long as its holder lives', together(), async t => {
  const { upstream, hosts } = await startFleet(t, 3)
  const hold = upstream.faults.hold('account_modules')
  const reads = hosts.map(async host => await host.get(modules(2000)))
  await hold.arrived
  await until(async () => await leased(hosts, 'lapsed') >= 2, 'both waiters have asked again')
  hold.release()
  t.same((await Promise.all(reads)).map(({ status }) => status), [200, 200, 200])
  t.equal(upstream.requests.countFor('account_modules'), 1)
  t.equal(await leased(hosts, 'waited'), 2)
})

t.test('a host that dies while it fetches delays the reads of others by its lease at most', together(), async t => {
  const { upstream, redis, hosts } = await startFleet(t, 3)
  const [host] = hosts
  const holder = await startProgram(t, ['--upstream', upstream.url, '--redis', redis.url])
  await until(async () => (await fetch(`${holder.url}${modules(1000)}`)).status === 200, 'it uses Redis')
  const hold = upstream.faults.hold('account_modules')
  fetch(`${holder.url}${modules(2000)}`).catch(() => {})
  await hold.arrived
  const reads = hosts.map(async host => await host.get(modules(2000)))
  const key = await leaseKeyIn(redis)
  await until(async () => await redis.client.strlen(key) === 17, 'another host waits')
  let leftMs = Infinity
  await until(async () => {
    const before = leftMs
    leftMs = await redis.client.pttl(key)
    return leftMs > before
  }, 'its holder has renewed it, so all of it is left')
  const idle = startIdleMeter()
  holder.child.kill('SIGKILL')
  const before = upstream.requests.countFor('account_modules')
  await until(() => upstream.requests.countFor('account_modules') > before, 'another host fetches')
  t.ok(idle() < 2500, `after ${idle()} ms`)
  hold.release()
  t.same((await Promise.all(reads)).map(({ status }) => status), [200, 200, 200])
  t.equal(upstream.requests.countFor('account_modules'), before + 1, 'of those that waited one fetches')
  const taken = await leased(hosts, 'taken')
  await host?.get(modules(2001))
  t.equal(await leased(hosts, 'taken'), taken + 1, 'and shares what it fetches next')
})

t.test('no host waits longer for a fetch that brings nothing to store', together(), async t => {
  const { upstream, hosts } = await startFleet(t, 4)
  // After a 429 nothing is asked for a time.
  for (const status of [404, 500, 503, 429]) {
    const fault = upstream.faults.add({ kind: 'error', code: 'internal_error', status, match: 'account_modules' })
    const before = await leased(hosts, 'not_stored')
    const responses = await Promise.all(hosts.map(async host => await host.get(modules(3000 + status))))
    t.same(new Set(responses.map(response => response.status)).size, 1)
    t.equal(await leased(hosts, 'not_stored') - before, 3, String(status))
    fault.remove()
  }
  t.equal(await leased(hosts, 'lapsed'), 0)
})

t.test('without Redis each host fetches for itself at once', together(), async t => {
  const { upstream, redis, hosts } = await startFleet(t, 3)
  await redis.kill()
  await until(async () => !(await Promise.all(hosts.map(isRedisUp))).includes(true), 'no host uses Redis')
  const responses = await Promise.all(hosts.map(async host => await host.get(modules(2000))))
  t.same(responses.map(({ status }) => status), [200, 200, 200])
  t.equal(upstream.requests.countFor('account_modules'), 3)
})

t.test('a latest read waits for no fetch of another host', together(), async t => {
  const { upstream, hosts } = await startFleet(t, 3)
  await Promise.all(hosts.map(async host => await host.get('/v1/accounts/0x1/modules?limit=1')))
  t.equal(upstream.requests.countFor('account_modules'), 3)
})

t.test('a read after a purge never gets what another host fetched before it', together(), async t => {
  const redis = await startRedis(t)
  const held: ServerResponse[] = []
  let nth = 0
  const upstream = await startStubUpstream(t, (_request, response) => {
    if (++nth === 1) held.push(response)
    else respondOk(response, '["new"]')
  }, (request, response) => {
    setTimeout(respondToIndex, 60, request, response)
  })
  const change = {
    admin: { listen: '127.0.0.1:0', token: 'token' },
    cache: { redis: { url: redis.url, timeoutMs: 1000 } }
  }
  const [holder, other] = [await varveAt(t, upstream.url, change), await varveAt(t, upstream.url, change)]
  const target = '/v1/accounts/0x1/modules?ledger_version=500'
  const late = holder.get(target)
  await until(() => held.length === 1, 'the fetch has begun')
  const waiting = other.get(target)
  await until(async () => await redis.client.strlen(await leaseKeyIn(redis)) === 17, 'the other host waits')
  const { status } = await sendRequest(other.adminUrl, '/purge', {
    method: 'POST',
    headers: { authorization: 'Bearer token' },
    body: JSON.stringify({ method: 'GET', url: target })
  })
  t.equal(status, 200)
  t.match(await other.get(target), { body: '["new"]' })
  for (const response of held) respondOk(response, '["old"]')
  await late
  t.match(await waiting, { body: '["new"]' })
  for (const host of [holder, other]) t.match(await host.get(target), { body: '["new"]' })
})

t.test('equal reads of a body too large to store wait for no lease of their own host', together(), async t => {
  const redis = await startRedis(t)
  const large = JSON.stringify('x'.repeat(2_000_000))
  const upstream = await startStubUpstream(t, (_request, response) => {
    setTimeout(respondOk, 60, response, large)
  }, (request, response) => {
    setTimeout(respondToIndex, 60, request, response)
  })
  const host = await varveAt(t, upstream.url, { cache: { redis: { url: redis.url, timeoutMs: 1000 }, maxEntryMb: 1 } })
  await until(async () => await isRedisUp(host), 'it uses Redis')
  const target = '/v1/accounts/0x1/modules?ledger_version=500'
  const responses = await Promise.all(Array.from({ length: 8 }, async () => await host.get(target)))
  for (const { body } of responses) t.ok(body === large)
  t.ok(await leased([host], 'taken') > 0)
  t.same([await leased([host], 'lapsed'), await leased([host], 'not_stored')], [0, 0])
})

t.test('where messages of Redis do not arrive, each host fetches for itself at once', together(), async t => {
  const redis = await startRedis(t)
  await redis.client.call('ACL', 'SETUSER', 'deaf', 'on', '>pass', '~*', '&*', '+@all', '-subscribe')
  const upstream = await startSandboxNode(t, { prunedBlocks: 0 })
  upstream.faults.add({ kind: 'slow', ms: 60 })
  const cache = { redis: { url: redis.url, timeoutMs: 1000, username: 'deaf', password: 'pass' } }
  const hosts = [await varveAt(t, upstream.url, { cache }), await varveAt(t, upstream.url, { cache })]
  await until(async () => !(await Promise.all(hosts.map(isRedisUp))).includes(false), 'all use Redis')
  let version = 2000
  const readTogether = async (): Promise<void> => {
    const target = modules(version++)
    for (const { status } of await Promise.all(hosts.map(async host => await host.get(target)))) t.equal(status, 200)
  }
  for (let nth = 0; nth < 5; nth++) await readTogether()
  for (const result of ['taken', 'waited', 'lapsed']) t.equal(await leased(hosts, result), 0, result)
})

t.test('hosts that purge at the same moment share their fetches again', together(), async t => {
  const { upstream, hosts } = await startFleet(t, 2, { admin: { listen: '127.0.0.1:0', token: 'token' } })
  const statuses = await Promise.all(hosts.map(async ({ adminUrl }, at) => {
    const body = JSON.stringify({ method: 'GET', url: modules(1000 + at) })
    return (await sendRequest(adminUrl, '/purge', { method: 'POST', headers: { authorization: 'Bearer token' }, body }))
      .status
  }))
  t.same(statuses, [200, 200])
  let version = 2000
  await until(async () => {
    const before = upstream.requests.countFor('account_modules')
    const target = modules(version++)
    await Promise.all(hosts.map(async host => await host.get(target)))
    return upstream.requests.countFor('account_modules') - before === 1
  }, 'one host fetches for both')
})

t.test(
  'a host that learns of a purge first asks again for what was fetched before it',
  together(),
  async t => {
    const { url } = await startRedis(t)
    const link = redisLinkTo(t, url, () => {})
    await link.start({ onUp: () => {}, onDown: () => {} })
    const purges = ['', '']
    const leases = purges.map((_, at): FetchLeases =>
      new FetchLeases({
        places: [
          new RedisLeases({
            link,
            prefix: 'varve:1:',
            peers: {
              publish: message => {
                if (message.kind === 'fetched') { for (const each of leases) each.onEnded(message.lease, message) }
              }
            },
            lastPurge: () => purges[at] ?? '',
            hearsHosts: () => true,
            isReadable: () => true
          })
        ],
        now: () => performance.now(),
        leased: () => {}
      })
    )
    const [holder, other] = leases as [FetchLeases, FetchLeases]
    const held = await holder.take('a key')
    const waiting = other.take('a key')
    purges[1] = 'the newest'
    held?.end(true)
    t.match(await waiting, { hasWaited: false })
  }
)

// Shares one set of processes among these tests, because they are slow to start.
t.test('of the workers of one host without Redis one fetches for all', async t => {
  const { url, requests, state } = await startChangingUpstream(t)
  const slowly: typeof state.respond = (response, nth) => {
    setTimeout(respondOk, 60, response, `[${nth}]`)
  }
  state.respond = slowly
  // Binds its own address: Node.js maps all port 0 listeners of one address in a process to one port.
  const host = await varveAt(t, url, { ...quietConfig, listen: '127.0.0.3:0', workers: 3 })
  let version = 100
  const readInAll = async (target: string): Promise<TestResponse[]> =>
    await Promise.all(Array.from({ length: 8 }, async () => await host.get(target)))

  await t.test('of three workers that miss a read at the same time one asks the upstream', async t => {
    const requestsFor = async (): Promise<number> => {
      const before = requests.length
      const responses = await readInAll(modules(++version))
      t.same([...new Set(responses.map(({ status }) => status))], [200])
      return requests.length - before
    }
    await until(async () => await requestsFor() === 1, 'all workers have agreed on a space')
    const waited = await leased([host], 'waited')
    await untilOneAsks(requestsFor)
    t.ok(await leased([host], 'waited') - waited >= 15)
    // Each worker has the entry.
    t.same(new Set(await requestEachWorker(host, modules(version), 3)), new Set(['varve; hit; detail=memory']))
  })

  await t.test('no worker waits longer for a fetch that brings nothing to store', async t => {
    const lapsed = await leased([host], 'lapsed')
    for (const status of [404, 500, 503]) {
      state.respond = response => {
        setTimeout(() => {
          response.writeHead(status, { 'content-type': 'application/json', ...stamps() })
            .end('{"message":"","error_code":"internal_error","vm_error_code":null}')
        }, 60)
      }
      const responses = await readInAll(modules(++version))
      t.same(new Set(responses.map(response => response.status)).size, 1)
    }
    t.equal(await leased([host], 'lapsed'), lapsed)
    state.respond = slowly
  })

  await t.test('a read after a purge never gets what another worker fetched before it', async t => {
    const held: ServerResponse[] = []
    state.respond = response => {
      if (held.length === 0) held.push(response)
      else respondOk(response, '["new"]')
    }
    const target = modules(++version)
    const late = readInAll(target)
    await until(() => held.length === 1, 'the fetch has begun')
    const { status } = await sendRequest(host.adminUrl, '/purge', {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
      body: JSON.stringify({ method: 'GET', url: target })
    })
    t.equal(status, 200)
    for (const response of await readInAll(target)) t.match(response, { status: 200, body: '["new"]' })
    for (const response of held) respondOk(response, '["old"]')
    await late
    for (let nth = 0; nth < 8; nth++) t.match(await host.get(target), { status: 200, body: '["new"]' })
  })

  await t.test('a worker that dies while it fetches delays the reads of others by its lease at most', async t => {
    const held: ServerResponse[] = []
    state.respond = response => {
      held.push(response)
    }
    const before = requests.length
    const target = modules(++version)
    const reads = [1, 2, 3, 4].map(async () => await host.get(target).catch((error: Error) => error))
    await until(() => held.length > 0, 'the fetch has begun')
    const [lost = NaN] = await allPidsOf(host, 3)
    process.kill(lost, 'SIGKILL')
    state.respond = slowly
    for (const response of held) respondOk(response, '[]')
    const statuses = (await Promise.all(reads)).map(each => each instanceof Error ? 'cut' : String(each.status))
    t.ok(statuses.includes('200'), statuses.join())
    t.same(statuses.filter(status => status !== '200' && status !== 'cut'), [])
    t.ok(requests.length - before <= 3)
  })
})

t.test('a host whose lease has lapsed ends no lease of another host', together(), async t => {
  const redis = await startRedis(t)
  const link = redisLinkTo(t, redis.url, () => {})
  await link.start({ onUp: () => {}, onDown: () => {} })
  const messages: unknown[] = []
  const leases = new RedisLeases({
    link,
    prefix: 'varve:1:',
    peers: { publish: message => messages.push(message) },
    lastPurge: () => '',
    hearsHosts: () => true,
    isReadable: () => true
  })
  t.equal(await leases.take('a read', 'one', 2000), 0)
  await redis.client.del(await leaseKeyIn(redis))
  t.equal(await leases.take('a read', 'two', 2000), 0)
  t.ok(await leases.take('a read', 'six', 2000) > 0)
  await leases.renew('a read', 'one', 60_000)
  await leases.end('a read', 'one', true)
  t.same(messages, [])
  t.ok(await leases.take('a read', 'six', 60_000) <= 2001, 'the second one holds it')
  await leases.end('a read', 'two', true)
  t.equal(messages.length, 1)
})
