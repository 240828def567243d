import t, { type Test } from 'tap'
import { type Sandbox, type SandboxOptions, releases, startSandbox } from '#sandbox'
import { cacheStatusHeader, redisHitStatus } from '../support/cache-status.js'
import { sendRequest } from '../support/client.js'
import { type RedisProcess, startRedis } from '../support/redis-server.js'
import { heartbeatsIn, heartbeatsKey } from '../support/replicas.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt } from '../support/varve.js'

const { events: old, variants: fresh } = releases
const modules = (at: number): string => `/v1/accounts/0x1/modules?ledger_version=${at}&limit=20`
// Runs two tests side by side: one waits for the longest silence of a replica.
t.jobs = 2
const targets = [1000, 1200, 1400, 1600].map(modules)

async function startUpstream (t: Test, options: SandboxOptions = {}): Promise<Sandbox> {
  const sandbox = await startSandbox({ blockMs: 0, ...options })
  t.teardown(async () => {
    await sandbox.close()
  })
  return sandbox
}

async function replica (t: Test, redis: RedisProcess, upstream: Sandbox): Promise<TestVarve> {
  return await varveAt(t, upstream.url, { cache: { redis: { url: redis.url } }, head: { pollMs: 50 } })
}

/** Returns the releases that each replica publishes for its upstreams. */
async function publishedReleases (redis: RedisProcess): Promise<string[]> {
  return (await heartbeatsIn(redis)).map(({ releases }) => releases.toSorted().join('+')).sort()
}

/**
 * Reads all targets on the replicas in turn; returns the number of upstream reads. Every response must come from a
 * running release.
 */
async function rounds (
  t: Test,
  count: number,
  varves: readonly TestVarve[],
  upstreams: readonly Sandbox[],
  bodies: ReadonlyMap<string, readonly string[]>
): Promise<number> {
  for (const upstream of upstreams) upstream.requests.reset()
  for (let round = 0; round < count; round++) {
    for (const varve of varves) {
      for (const target of targets) {
        const got = await varve.get(target)
        if (bodies.get(target)?.includes(got.body) !== true) {
          t.fail(`${target}: ${got.status} ${got.body.slice(0, 100)}`)
        }
      }
    }
  }
  return upstreams.reduce((sum, upstream) => sum + upstream.requests.countFor('account_modules'), 0)
}

/** Returns each target as each release renders it. */
async function renderings (
  t: Test
): Promise<{ ofOld: Map<string, string[]>, ofFresh: Map<string, string[]>, ofEither: Map<string, string[]> }> {
  const read = async (release: string): Promise<Map<string, string[]>> => {
    const upstream = await startUpstream(t, { release })
    return new Map(
      await Promise.all(
        targets.map(async target => [target, [(await sendRequest(upstream.url, target)).body]] as [string, string[]])
      )
    )
  }
  const [ofOld, ofFresh] = [await read(old), await read(fresh)]
  for (const target of targets) {
    t.not(ofOld.get(target)?.[0], ofFresh.get(target)?.[0], 'the releases render differently')
  }
  return {
    ofOld,
    ofFresh,
    ofEither: new Map(targets.map(target => [target, [...ofOld.get(target) ?? [], ...ofFresh.get(target) ?? []]]))
  }
}

t.test('releases of a replica that is gone are forgotten', { buffered: true }, async t => {
  const { ofOld, ofFresh, ofEither } = await renderings(t)
  const redis = await startRedis(t)
  const upstreams = [await startUpstream(t, { release: old }), await startUpstream(t, { release: fresh })]
  const [a, b] = [await replica(t, redis, upstreams[0] as Sandbox), await replica(t, redis, upstreams[1] as Sandbox)]
  await until(
    async () => (await publishedReleases(redis)).join() === [old, fresh].sort().join(),
    'both upstream releases are in Redis'
  )
  await new Promise(resolve => {
    setTimeout(resolve, 600)
  })
  await rounds(t, 1, [a], upstreams, ofOld)
  await rounds(t, 1, [b], upstreams, ofEither)
  t.match(await b.get(targets[0] ?? ''), { headers: { 'cache-status': /hit/ } })
  await a.stop({ drainMs: 0 })
  await until(
    async () => ofFresh.get(targets[0] ?? '')?.includes((await b.get(targets[0] ?? '')).body) === true,
    'the old release is gone'
  )
  await until(
    async () => (await publishedReleases(redis)).join() === fresh,
    'the record of the old release has expired'
  )
})

t.test(
  'during a rolling upgrade replicas do not refresh in turn; they revalidate after it',
  { buffered: true },
  async t => {
    const { ofOld, ofFresh, ofEither } = await renderings(t)
    const redis = await startRedis(t)
    const upstreams = [await startUpstream(t, { release: old }), await startUpstream(t, { release: old })]
    const [first, second] = upstreams
    const varves = await Promise.all(upstreams.map(async upstream => await replica(t, redis, upstream)))
    t.equal(await rounds(t, 1, varves.slice(0, 1), upstreams, ofOld), targets.length)
    await until(async () =>
      (await redis.client.keys('*modules*')).length === targets.length &&
      (await publishedReleases(redis)).join() === `${old},${old}`, 'all listings are in Redis')
    t.equal(await rounds(t, 3, varves, upstreams, ofOld), 0)

    if (first !== undefined) {
      first.ledger.release = fresh
    }
    // Allows one refresh: the first replica may not know yet that another still runs the old release.
    const inBetween = await rounds(t, 10, varves, upstreams, ofEither)
    await until(
      async () => (await publishedReleases(redis)).join() === [old, fresh].sort().join(),
      'both upstream releases are in Redis'
    )
    const settled = new Promise(resolve => {
      setTimeout(resolve, 600)
    })
    const refreshCount = await rounds(t, 5, varves, upstreams, ofEither)
    await settled
    t.ok(inBetween + refreshCount <= targets.length, `${inBetween}, then ${refreshCount} refreshes`)
    t.equal(await rounds(t, 25, varves, upstreams, ofEither), 0, 'while both releases run')
    const late = await replica(t, redis, second as Sandbox)
    t.equal(await rounds(t, 5, [late, ...varves], upstreams, ofEither), 0, 'nor does a replica that starts meanwhile')

    if (second !== undefined) second.ledger.release = fresh
    await until(
      async () => (await publishedReleases(redis)).join() === [fresh, fresh, fresh].join(),
      'the upgrade is done'
    )
    await until(
      async () =>
        (await Promise.all([late, ...varves].map(async varve => (await varve.get(targets[0] ?? '')).body))).every(
          body => ofFresh.get(targets[0] ?? '')?.includes(body)
        ),
      'all replicas serve the new rendering'
    )
    await rounds(t, 1, [late, ...varves], upstreams, ofEither)
    t.equal(
      await rounds(t, 5, [late, ...varves], upstreams, ofFresh),
      0,
      'the new release renders all, and it stays so'
    )
  }
)

t.test(
  'replicas serve entries of either release while any replica\'s upstream still runs it',
  { buffered: true },
  async t => {
    const { ofEither } = await renderings(t)
    const redis = await startRedis(t)
    const upstreams = [await startUpstream(t, { release: old }), await startUpstream(t, { release: fresh })]
    const varves = await Promise.all(upstreams.map(async upstream => await replica(t, redis, upstream)))
    await until(
      async () => (await publishedReleases(redis)).join() === [old, fresh].sort().join(),
      'both upstream releases are in Redis'
    )
    await new Promise(resolve => {
      setTimeout(resolve, 600)
    })
    await rounds(t, 1, varves, upstreams, ofEither)
    t.equal(await rounds(t, 25, varves, upstreams, ofEither), 0)
    await redis.client.del(heartbeatsKey)
    t.equal(await rounds(t, 25, varves, upstreams, ofEither), 0, 'nor when the key that lists the releases is lost')
  }
)

t.test('behind one address with nodes of two releases varve does not refresh in turns', { buffered: true }, async t => {
  const { ofEither } = await renderings(t)
  const redis = await startRedis(t)
  const upstream = await startUpstream(t, { release: old })
  const varves = [await replica(t, redis, upstream), await replica(t, redis, upstream)]
  let polls = 0
  const timer = setInterval(() => {
    upstream.ledger.release = polls++ % 2 === 0 ? fresh : old
  }, 60)
  t.teardown(() => {
    clearInterval(timer)
  })
  await until(
    async () => (await publishedReleases(redis)).every(names => names === [old, fresh].sort().join('+')),
    'each replica has met both releases'
  )
  await rounds(t, 1, varves, [upstream], ofEither)
  t.equal(await rounds(t, 25, varves, [upstream], ofEither), 0)
})

t.test('replicas use a rendering that another replica has refreshed', { buffered: true }, async t => {
  const redis = await startRedis(t)
  const sandbox = await startUpstream(t, { release: old })
  const [a, b] = [await replica(t, redis, sandbox), await replica(t, redis, sandbox)]
  await a.get(modules(2000))
  const stored = async (): Promise<string> => {
    const [key] = await redis.client.keys('*modules*')
    return key === undefined ? '' : String(await redis.client.get(key))
  }
  await until(async () => await stored() !== '', 'the listing is in Redis')
  const before = await stored()
  t.equal((await b.get(modules(2000))).headers[cacheStatusHeader], redisHitStatus)
  sandbox.ledger.release = fresh
  // Waits for the expiry of what other replicas published about the old release.
  await until(
    async () =>
      /^varve; fwd=uri-miss; fwd-status=200; stored/.test(
        String((await a.get(modules(2000))).headers[cacheStatusHeader])
      ),
    'read again'
  )
  // A replica that looks before the write has reached Redis would read its upstream too.
  await until(async () => await stored() !== before, 'the new rendering is in Redis')
  await until(
    async () => /^varve; hit; detail=redis/.test(String((await b.get(modules(2000))).headers[cacheStatusHeader])),
    'the entry is a hit from Redis'
  )
  t.equal(sandbox.requests.countFor('account_modules'), 2)
})
