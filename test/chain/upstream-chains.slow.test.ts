import t from 'tap'
import { type Sandbox, startSandbox } from '#sandbox'
import { freePort } from '../support/free-port.js'
import { sendRequest } from '../support/client.js'
import { portOf, startSandboxNode } from '../support/replicas.js'
import { startInFrontOf, startWithUpstreams } from '../support/multiple-upstreams.js'
import { until } from '../support/until.js'

const modules = (version: number | bigint): string => `/v1/accounts/0x1/modules?ledger_version=${version}&limit=1`
const block = (version: number | bigint): string => `/v1/blocks/by_version/${version}`

t.test('an upstream on another chain id gets no reads, is logged once as unhealthy, and recovers', async t => {
  const { upstreams, get, upStates, takeRequestCounts, statusOf, varve } = await startWithUpstreams(t, [{}, {}])
  const [, other] = upstreams
  const fault = other?.faults.add({ kind: 'otherChain', chainId: 9 })
  await until(async () => await upStates() === '1,0', 'only the first upstream is up')
  takeRequestCounts()
  for (let version = 2000; version < 2020; version++) {
    t.match(await get(modules(version)), { status: 200, headers: { 'x-node-chain-id': '4' } })
  }
  t.same(takeRequestCounts(), [20, 0])
  t.match(await sendRequest(varve.adminUrl, '/readyz'), {
    status: 200,
    body: /"n2 is quarantined: it serves chain 9, not 4"/
  })
  t.match(await statusOf('n2'), { state: 'quarantined', reason: 'it serves chain 9, not 4' })
  t.match(await statusOf('n1'), {
    state: 'up',
    version: String(other?.ledger.head.version),
    oldestVersion: '0',
    lagVersions: '0'
  })
  const lines = (msg: RegExp): number =>
    varve.log.filter(line => line['upstream'] === 'n2' && msg.test(String(line['msg']))).length
  t.equal(lines(/serves another chain/), 1)
  t.ok(varve.log.some(({ upstream, reason }) => upstream === 'n2' && reason === 'it serves chain 9, not 4'))
  fault?.remove()
  await until(async () => await upStates() === '1,1', 'both upstreams are up', 2000)
  takeRequestCounts()
  const hold = upstreams[0]?.faults.hold('account_modules')
  const reads: Array<ReturnType<typeof get>> = []
  await until(
    () => (takeRequestCounts()[1] ?? 0) > 0 || reads.push(get(modules(3000 + reads.length))) < 0,
    'the busy first upstream makes varve retry the second'
  )
  hold?.release()
  for (const read of reads) t.match(await read, { status: 200 })
  t.equal(await varve.metric('varve_chain_resets_total'), 0)
})

t.test('if upstreams disagree at the start, the first configured decides, however slow it is', async t => {
  for (const options of [{ chainId: 9 }, { seed: 7 }]) {
    const upstreams = [
      await startSandboxNode(t, { prunedBlocks: 0 }),
      await startSandboxNode(t, { prunedBlocks: 0, ...options })
    ]
    upstreams[0]?.faults.add({ kind: 'slow', ms: 150, times: 1 })
    const { get, upStates, takeRequestCounts, varve } = await startInFrontOf(t, upstreams)
    await until(async () => await upStates() === '1,0', 'only the first upstream is up')
    takeRequestCounts()
    for (let version = 2000; version < 2010; version++) {
      t.equal((await get(block(version))).body, (await sendRequest(upstreams[0]?.url ?? '', block(version))).body)
    }
    t.equal(takeRequestCounts()[1], 0)
    t.equal(await varve.metric('varve_chain_resets_total'), 0)
  }
})

t.test('a first upstream that times out leaves the decision to the next, or to chainId', async t => {
  const [silent, next] = [await startSandboxNode(t), await startSandboxNode(t, { chainId: 9 })]
  silent.faults.add({ kind: 'hang' })
  const { get } = await startInFrontOf(t, [silent, next], {}, { timeoutMs: 200 })
  t.match(await get(modules(5000)), { status: 200, headers: { 'x-node-chain-id': '9' } })
  const [four, nine] = [await startSandboxNode(t), await startSandboxNode(t, { chainId: 9 })]
  const chosen = await startInFrontOf(t, [four, nine], { chainId: 9 })
  t.match(await chosen.get(modules(5000)), { status: 200, headers: { 'x-node-chain-id': '9' } })
  await until(async () => await chosen.upStates() === '0,1', 'only the second upstream is up')
})

t.test('varve quarantines an upstream that returns with other blocks, however long its chain', async t => {
  for (const blocks of [500, 3000]) {
    const stays = await startSandboxNode(t, { prunedBlocks: 0 })
    const before = await startSandbox({ blockMs: 0, prunedBlocks: 0, seed: 1 })
    const { get, upStates, statusOf } = await startInFrontOf(t, [stays, before])
    await until(async () => await upStates() === '1,1', 'both upstreams are up')
    await before.close()
    const after = await startSandboxNode(t, { prunedBlocks: 0, seed: 7, blocks, port: portOf(before) })
    for (let version = 2000; version < 2020; version++) {
      t.equal((await get(block(version))).body, (await sendRequest(stays.url, block(version))).body)
    }
    await until(async () => (await statusOf('n2'))['state'] === 'quarantined', 'upstream n2 is quarantined')
    t.match(String((await statusOf('n2'))['reason']), /chain with the same chain id/)
    t.notOk(after.requests.latest.some(({ endpoint }) => endpoint === 'block_by_version'), 'it gets no reads')
  }
})

t.test('an upstream that returns at genesis gets no reads before it has a block to compare', async t => {
  const stays = await startSandboxNode(t, { prunedBlocks: 10 })
  const before = await startSandbox({ blockMs: 0, prunedBlocks: 0, seed: 1 })
  const { get, upStates, statusOf } = await startInFrontOf(t, [stays, before])
  await until(async () => await upStates() === '1,1', 'both upstreams are up')
  await before.close()
  await until(async () => await upStates() === '1,0', 'the second upstream is down')
  const after = await startSandboxNode(t, { prunedBlocks: 0, seed: 7, blocks: 0, port: portOf(before) })
  t.equal(after.ledger.head.version, 0n)
  const reason = async (): Promise<string> => String((await statusOf('n2'))['reason'])
  await until(async () => /it stands at genesis/.test(await reason()), 'it is quarantined')
  t.match(await get(modules(0)), { status: 410, body: /pruned/ }, 'the other upstream alone says what there is')
  t.equal(after.requests.countFor('account_modules'), 0)
  after.ledger.grow(100)
  await until(async () => /older chain/.test(await reason()), 'its chain is known')
})

t.test('varve compares an upstream that returns unhealthy as soon as it can', async t => {
  const ports = [await freePort(), await freePort()]
  const [stays, before] = await Promise.all(
    ports.map(async port => await startSandbox({ blockMs: 0, prunedBlocks: 0, port }))
  )
  const { get, upStates, statusOf } = await startInFrontOf(
    t,
    [stays, before].filter(upstream => upstream !== undefined)
  )
  await until(async () => await upStates() === '1,1', 'both upstreams are up')
  await Promise.all([stays?.close(), before?.close()])
  await until(async () => await upStates() === '0,0', 'both upstreams are down')
  const after = await startSandboxNode(t, { prunedBlocks: 0, seed: 7, blocks: 3000, port: ports[1] ?? 0 })
  const faults = (['block_by_height', 'transaction_by_version'] as const).map(match =>
    after.faults.add({ kind: 'panic200', match })
  )
  for (let version = 2000; version < 2010; version++) t.equal((await get(block(version))).status, 503)
  t.not((await statusOf('n2'))['state'], 'quarantined')
  const back = await startSandboxNode(t, { prunedBlocks: 0, port: ports[0] ?? 0 })
  for (const fault of faults) fault.remove()
  await until(async () => (await statusOf('n2'))['state'] === 'quarantined', 'upstream n2 is quarantined', 3000)
  t.equal((await get(block(2000))).body, (await sendRequest(back.url, block(2000))).body)
})

t.test('one failed response of an old-chain upstream does not lift the quarantine of others', async t => {
  const stays = await startSandboxNode(t, { prunedBlocks: 0 })
  const before = await startSandbox({ blockMs: 0, prunedBlocks: 0 })
  const { get, upStates, statusOf, varve } = await startInFrontOf(t, [stays, before])
  await until(async () => await upStates() === '1,1', 'both upstreams are up')
  await before.close()
  await until(async () => await upStates() === '1,0', 'only the first upstream is up')
  const cached = (await get(block(2000))).body
  await startSandboxNode(t, { prunedBlocks: 0, seed: 7, blocks: 3000, port: portOf(before) })
  stays.faults.add({
    kind: 'error',
    code: 'internal_error',
    status: 503,
    stamped: false,
    times: 1,
    match: 'account_modules'
  })
  await get(modules(5000))
  await until(async () => (await statusOf('n2'))['state'] === 'quarantined', 'upstream n2 is quarantined')
  t.match([await upStates(), await varve.metric('varve_chain_resets_total'), (await get(block(2000))).body], [
    '1,0',
    0,
    cached
  ])
})

t.test('a reset begins the new chain only when no responding upstream is left on the old one', async t => {
  const ports = [await freePort(), await freePort()]
  const old = await Promise.all(ports.map(async port => await startSandbox({ blockMs: 0, prunedBlocks: 0, port })))
  const { get, upStates, varve } = await startInFrontOf(t, old)
  await until(async () => await upStates() === '1,1', 'both upstreams are up')
  const before = (await get(block(2000))).body
  t.equal(before, (await sendRequest(old[0]?.url ?? '', block(2000))).body)
  await old[0]?.close()
  await startSandboxNode(t, { prunedBlocks: 0, seed: 7, blocks: 3000, port: ports[0] ?? 0 })
  await until(async () => await upStates() === '0,1', 'only the second upstream is up')
  t.equal((await get(block(2000))).body, before)
  t.match(await get(modules(2100)), { status: 200 }, 'the old chain stays in use')
  t.equal(await varve.metric('varve_chain_resets_total'), 0)
  await old[1]?.close()
  const second = await startSandboxNode(t, { prunedBlocks: 0, seed: 7, blocks: 3000, port: ports[1] ?? 0 })
  await until(async () => await upStates() === '1,1', 'both upstreams are up', 3000)
  t.equal(await varve.metric('varve_chain_resets_total'), 1)
  const after = (await get(block(2000))).body
  t.not(after, before)
  t.equal(after, (await sendRequest(second.url, block(2000))).body)
})

t.test('varve notices a longer chain in an upstream\'s place under steady traffic before using it', async t => {
  const port = await freePort()
  const old = await startSandbox({ blockMs: 0, prunedBlocks: 0, port })
  const { get, varve } = await startInFrontOf(t, [old], { head: { pollMs: 600_000 } })
  let version = 2000
  await until(
    async () => {
      await get(modules(version++))
      return old.requests.countFor('block_by_height') > 0
    },
    'blocks to know the chain by were read, whatever the traffic',
    4000
  )
  await old.close()
  const next = await startSandboxNode(t, { prunedBlocks: 0, seed: 7, blocks: 3000, port })
  for (let nth = 0; nth < 5; nth++) {
    t.match(await get(block(3000 + nth)), { status: 200, body: (await sendRequest(next.url, block(3000 + nth))).body })
  }
  t.equal(await varve.metric('varve_chain_resets_total'), 1)
})

t.test('an upstream that returns on the old chain right after a reset gets no reads', async t => {
  const ports = [await freePort(), await freePort()]
  const old = await Promise.all(ports.map(async port => await startSandbox({ blockMs: 0, prunedBlocks: 0, port })))
  const { get, upStates, statusOf, varve } = await startInFrontOf(t, old)
  await until(() => old.some(({ requests }) => requests.countFor('block_by_height') > 0), 'anchors were read')
  await Promise.all(old.map(async sandbox => {
    await sandbox.close()
  }))
  await until(async () => await upStates() === '0,0', 'both upstreams are down')
  const next = await startSandboxNode(t, { prunedBlocks: 0, seed: 7, blocks: 3000, port: ports[1] ?? 0 })
  // Leaves time between the reset and the first anchor of the new chain.
  next.faults.add({ kind: 'slow', ms: 800, match: 'block_by_height' })
  await until(async () => await varve.metric('varve_chain_resets_total') === 1, 'the chain is reset')
  await startSandboxNode(t, { prunedBlocks: 0, port: ports[0] ?? 0 })
  for (let version = 2000; version < 2040; version++) {
    t.equal((await get(block(version))).body, (await sendRequest(next.url, block(version))).body, String(version))
  }
  await until(async () => (await statusOf('n1'))['state'] === 'quarantined', 'upstream n1 is quarantined')
  t.match([await upStates(), await varve.metric('varve_chain_resets_total')], ['0,1', 1])
})

t.test('an older chain is quarantined until the newer one is back, and the status says what to do', async t => {
  const port = await freePort()
  const startNode = async (seed: number, blocks: number): Promise<Sandbox> =>
    await startSandboxNode(t, { prunedBlocks: 0, seed, blocks, port })
  const newer = await startNode(7, 3000)
  const { get, statusOf, upStates, varve } = await startInFrontOf(t, [newer])
  const { body } = await get(block(2000))
  await until(() => newer.requests.countFor('block_by_height') >= 3, 'anchors were read')
  await newer.close()
  await until(async () => await upStates() === '0', 'the upstream is down')
  const older = await startNode(1, 1000)
  const state = async (): Promise<unknown> => (await statusOf('n1'))['state']
  await until(async () => await state() === 'quarantined', 'the older chain is quarantined')
  t.match(
    (await statusOf('n1'))['reason'],
    /^it serves an older chain .*: point it at the newer chain, or restart varve/
  )
  t.match(await get(modules(1000)), { status: 503, body: /older chain/ })
  t.equal((await get(block(2000))).body, body, 'hits are of the newer chain')
  await older.close()
  const back = await startNode(7, 3000)
  await until(async () => await state() === 'up', 'it is used again, without a restart')
  t.match(await get(modules(2000)), { status: 200, body: (await sendRequest(back.url, modules(2000))).body })
  t.equal(await varve.metric('varve_chain_resets_total'), 0)
})

t.test('an upstream without any block that proves our chain is not used before it has one', async t => {
  const port = await freePort()
  const newer = await startSandboxNode(t, { prunedBlocks: 2000, blocks: 3000, port })
  const { get, statusOf, upStates } = await startInFrontOf(t, [newer])
  t.equal((await get('/v1/accounts/0x1/modules?limit=1')).status, 200)
  await until(() => newer.requests.countFor('block_by_height') >= 3, 'anchors were read')
  await newer.close()
  await until(async () => await upStates() === '0', 'the upstream is down')
  const state = async (): Promise<unknown> => (await statusOf('n1'))['state']
  const other = await startSandboxNode(t, { prunedBlocks: 0, seed: 7, blocks: 1000, port })
  await until(async () => await state() === 'quarantined', 'another chain, far behind, is quarantined')
  t.match(await get(modules(1000)), { status: 503, body: /before every block that proves the chain/ })
  await other.close()
  const same = await startSandboxNode(t, { prunedBlocks: 0, blocks: 1000, port })
  t.match(await get(modules(1000)), { status: 503 })
  same.ledger.grow(1500)
  await until(async () => await state() === 'up', 'it has a block of our chain')
  t.match(await get(modules(1000)), { status: 200, body: (await sendRequest(same.url, modules(1000))).body })
})
