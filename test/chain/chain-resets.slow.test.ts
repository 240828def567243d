import t, { type Test } from 'tap'
import { type Sandbox } from '#sandbox'
import { sendRequest } from '../support/client.js'
import { startIdleMeter, until } from '../support/until.js'
import { type RedisProcess, startRedis } from '../support/redis-server.js'
import {
  blockTarget,
  startSandboxNode,
  portOf,
  recordedSpaces,
  spaceOf,
  untilAgreed,
  untilAllSynced,
  untilChainKnown,
  usedSpaces
} from '../support/replicas.js'
import { cacheStatusHeader } from '../support/cache-status.js'
import { type TestVarve, varveAt } from '../support/varve.js'

const targets = [1000, 1500, 2000].map(blockTarget)
const often = 50

interface Place {
  readonly redis: RedisProcess
  readonly sandbox: Sandbox
  /** Starts a replica; without a poll interval it notices no reset by itself. */
  start(pollMs?: number): Promise<TestVarve>
}

async function place (t: Test): Promise<Place> {
  const redis = await startRedis(t)
  const sandbox = await startSandboxNode(t)
  const start = async (pollMs = 600_000): Promise<TestVarve> =>
    await varveAt(t, sandbox.url, { head: { pollMs }, cache: { redis: { url: redis.url } } })
  return { redis, sandbox, start }
}

/** Reads cacheable and moving targets from all replicas and waits until they agree on the chain. */
async function warm ({ redis }: Place, varves: readonly TestVarve[]): Promise<void> {
  for (const varve of varves) for (const target of targets) await varve.get(target)
  await untilChainKnown(redis)
  for (const varve of varves) {
    for (const target of targets) {
      await until(
        async () => String((await varve.get(target)).headers[cacheStatusHeader]).includes('hit'),
        'the read is a hit'
      )
    }
  }
}

/** Expects every target to carry the upstream's current content and position. */
async function isOfNow (t: Test, { sandbox }: Place, varve: TestVarve): Promise<void> {
  for (const target of targets) {
    const direct = await sendRequest(sandbox.url, target)
    t.match(await varve.get(target), {
      status: 200,
      body: direct.body,
      headers: { 'x-node-ledger-version': direct.headers['x-aptos-ledger-version'] }
    }, target)
  }
}

const resets = async (varve: TestVarve): Promise<number | undefined> => await varve.metric('varve_chain_resets_total')

t.test('a new process notices a reset to a longer chain as soon as it has served a read', async t => {
  const sandbox = await startSandboxNode(t)
  const varve = await varveAt(t, sandbox.url)
  const [target = ''] = targets
  const old = (await varve.get(target)).body
  await sandbox.close()
  t.equal((await varve.get(target)).body, old)
  const longer = await startSandboxNode(t, { seed: 7, blocks: 3000, port: portOf(sandbox) })
  t.equal((await varve.get(blockTarget(3000))).status, 200)
  const { body } = await sendRequest(longer.url, target)
  t.match(await varve.get(target), { status: 200, body })
  t.not(body, old)
})

for (const isMessageLost of [false, true]) {
  t.test(`a reset reaches all replicas within a second${isMessageLost ? ', even if its message is lost' : ''}`, async t => {
    const here = await place(t)
    const varves = [await here.start(often), await here.start(), await here.start()]
    const [first, ...others] = varves
    await warm(here, varves)
    const before = await untilAgreed(varves)
    const old = await first?.get(blockTarget(2000))
    if (isMessageLost) await here.redis.client.client('KILL', 'TYPE', 'PUBSUB')
    const startedAt = performance.now()
    here.sandbox.faults.add({ kind: 'otherChain' })
    await until(async () => first !== undefined && await resets(first) === 1, 'the first replica notices it')
    const firstMs = performance.now() - startedAt
    const waited = startIdleMeter()
    await until(() => others.every(varve => spaceOf(varve) !== before), 'the other replicas follow')
    t.ok(waited() < 1000, `after ${Math.round(waited())} ms; the first took ${Math.round(firstMs)}`)
    for (const varve of varves) {
      await isOfNow(t, here, varve)
      t.not((await varve.get(blockTarget(2000))).body, old?.body)
      t.equal(await resets(varve), 1)
    }
    const space = await untilAgreed(varves, before)
    t.same((await recordedSpaces(here.redis)).map(({ name }) => name), [space, before])
  })
}

t.test('replicas that notice a reset at the same time end on one space and stay on it', async t => {
  const here = await place(t)
  const varves = await Promise.all([1, 2, 3, 4].map(async () => await here.start(often)))
  await warm(here, varves)
  const before = await untilAgreed(varves)
  here.sandbox.faults.add({ kind: 'otherChain' })
  await Promise.all(varves.map(async varve => await varve.get('/v1/accounts/0x1/modules?limit=1')))
  await until(() => varves.every(varve => spaceOf(varve) !== before), 'all replicas notice it')
  for (const varve of varves) await isOfNow(t, here, varve)
  const space = await untilAgreed(varves, before)
  // Gives a replica time to look at Redis: a further space would follow that look.
  await untilAllSynced(here.redis)
  t.same(varves.map(spaceOf), Array(4).fill(space))
  t.same(await Promise.all(varves.map(resets)), [1, 1, 1, 1])
  const hit = await varves[0]?.get(blockTarget(2000))
  for (const varve of varves) {
    t.match(await varve.get(blockTarget(2000)), { body: hit?.body, headers: { [cacheStatusHeader]: /hit/ } })
  }
})

t.test('varve notices a longer new chain by its blocks when the upstream returns', async t => {
  const here = await place(t)
  const varves = [await here.start(often), await here.start()]
  const [first, second] = varves
  await warm(here, varves)
  const before = await untilAgreed(varves)
  const down = here.sandbox.faults.add({ kind: 'reset' })
  await until(
    () => first?.log.some(({ msg }) => /upstream is down/.test(String(msg))) === true,
    'the log reports the upstream as down'
  )
  for (const target of targets) {
    t.match(
      await second?.get(target),
      { status: 200, headers: { [cacheStatusHeader]: /hit/ } },
      'history is served during the outage'
    )
  }
  here.sandbox.faults.add({ kind: 'otherChain', blocks: 1500 })
  down.remove()
  const returned = await sendRequest(here.sandbox.url, '/v1')
  t.ok(Number(returned.headers['x-aptos-ledger-version']) > Number(here.sandbox.ledger.head.version))
  await until(() => varves.every(varve => spaceOf(varve) !== before), 'all replicas notice it')
  for (const varve of varves) await isOfNow(t, here, varve)
  await untilAgreed(varves, before)
})

t.test('varve checks the first response of a returning upstream before serving it', async t => {
  const here = await place(t)
  const varve = await here.start()
  await warm(here, [varve])
  await here.sandbox.close()
  t.match(await varve.get('/v1/accounts/0x1/modules'), { status: 503 })
  await startSandboxNode(t, { seed: 2, blocks: 1500, port: portOf(here.sandbox) })
  t.match(await varve.get('/v1/accounts/0x1/modules?limit=1'), { status: 200 })
  t.equal(await resets(varve), 1)
  await isOfNow(t, here, varve)
})

t.test('varve notices a longer new chain when the upstream\'s connection drops', async t => {
  const here = await place(t)
  const varve = await here.start()
  await warm(here, [varve])
  await here.sandbox.close()
  await startSandboxNode(t, { seed: 2, blocks: 1500, port: portOf(here.sandbox) })
  t.match(await varve.get('/v1/accounts/0x1/modules?limit=1'), { status: 200 })
  await until(
    async () => {
      await varve.get('/v1/accounts/0x1/modules?limit=1')
      return await resets(varve) === 1
    },
    'the reset is noticed',
    2000
  )
  await isOfNow(t, here, varve)
})

t.test('varve notices a reset that happened while it was stopped before it serves a hit', async t => {
  for (const blocks of [500, 1500]) {
    const here = await place(t)
    const before = await here.start()
    await warm(here, [before])
    await until(
      async () => (await here.redis.client.keys('* json blocks [0-9]*')).length === targets.length,
      'all entries are in Redis'
    )
    await before.stop({ drainMs: 0 })
    here.sandbox.faults.add({ kind: 'otherChain', blocks })
    const after = await here.start()
    await isOfNow(t, here, after)
    t.notOk(usedSpaces(after).includes(spaceOf(before)))
  }
})

t.test('a late response of the old chain never gets the position of the new chain', async t => {
  const here = await place(t)
  const varve = await here.start()
  await warm(here, [varve])
  const target = '/v1/accounts/0x1/modules?ledger_version=2000&limit=3'
  const old = await sendRequest(here.sandbox.url, target)
  const hold = here.sandbox.faults.hold('account_modules', { late: true })
  const reading = varve.get(target)
  await hold.arrived
  here.sandbox.faults.add({ kind: 'reset', times: 1 })
  here.sandbox.faults.add({ kind: 'otherChain', blocks: 1500 })
  t.equal((await varve.get(blockTarget(1200))).status, 503)
  await varve.get(blockTarget(1200))
  t.equal(await resets(varve), 1)
  hold.release()
  const got = await reading
  const now = await sendRequest(here.sandbox.url, target)
  t.not(now.body, old.body)
  t.match(got, {
    status: 200,
    body: now.body,
    headers: { 'x-node-ledger-version': now.headers['x-aptos-ledger-version'] }
  })
})
