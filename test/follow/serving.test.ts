import t, { type Test } from 'tap'
import { releases, type Sandbox } from '#sandbox'
import { pendingTransactions, transactionRecord } from '../../sandbox/transactions.js'
import { sendRequest, type TestResponse } from '../support/client.js'
import { until } from '../support/until.js'
import { type ConfigChange, type TestVarve, varveAt, varveAtSandbox } from '../support/varve.js'
import { testFolder } from '../support/test-folder.js'

const quiet = '/v1/accounts/0x1/module/coin'
const clock = '/v1/accounts/0x1/resource/0x1::timestamp::CurrentTimeMicroseconds'
const view = JSON.stringify({ function: '0x1::timestamp::now_microseconds', type_arguments: [], arguments: [] })
const followedHit = 'varve; hit; detail=followed'
const statusOf = async (varve: TestVarve): Promise<{ follow?: { state: string }, degraded: string[] }> =>
  await (await fetch(`${varve.adminUrl}/status.json`)).json() as { follow?: { state: string }, degraded: string[] }

/** Starts varve that follows, and waits until it does. */
async function following (
  t: Test,
  change: ConfigChange = {},
  options: Parameters<typeof varveAtSandbox>[1] = {}
): Promise<{ sandbox: Sandbox, varve: TestVarve }> {
  // The next blocks change no epoch and have no write set of their own, which would count as a change of everything.
  const { sandbox, varve } = await varveAtSandbox(t, { blocks: 1030, ...options }, {
    ...change,
    follow: { mode: 'on', maxAgeMs: 300, verify: 0, ...change.follow }
  })
  await varve.get(quiet)
  await until(async () => (await statusOf(varve)).follow?.state === 'following', 'it follows')
  return { sandbox, varve }
}

/** Waits until the followed head is the sandbox's. */
async function caughtUp ({ ledger }: Sandbox, varve: TestVarve): Promise<void> {
  await until(
    async () => (await varve.get(quiet)).headers['x-aptos-ledger-version'] === String(ledger.head.version),
    'at F'
  )
}

t.test('an untouched latest read is a hit at the followed head, others are fetched there', async t => {
  const { sandbox, varve } = await following(t)
  await varve.get(quiet)
  await varve.get(clock)
  // The very next transaction touches the clock, and no later one.
  sandbox.ledger.grow()
  await caughtUp(sandbox, varve)
  sandbox.requests.reset()
  t.match(await varve.get(quiet), {
    status: 200,
    headers: {
      'cache-status': followedHit,
      'cache-control': 'no-store',
      'x-node-ledger-version': String(sandbox.ledger.head.version)
    }
  })
  t.equal(sandbox.requests.countFor('account_module'), 0)
  const changed = await varve.get(clock)
  t.match(changed.headers, { 'cache-status': /uri-miss; fwd-status=200; stored/, 'cache-control': 'no-store' })
  const [sent] = sandbox.requests.latest.filter(({ endpoint }) => endpoint === 'account_resource')
  t.match(sent?.url, `ledger_version=${changed.headers['x-aptos-ledger-version']}`, 'it is fetched at its stamp')
  t.equal(
    changed.body,
    await fetch(`${sandbox.url}${clock}?ledger_version=${sandbox.ledger.head.version}`)
      .then(async response => await response.text())
  )
})

t.test('no-cache and maxAgeMs 0 forward a latest read to the upstream', async t => {
  const { sandbox, varve } = await following(t)
  sandbox.ledger.grow()
  const forwarded = await varve.get(quiet, { headers: { 'cache-control': 'no-cache' } })
  t.match(forwarded.headers, {
    'cache-status': 'varve; fwd=bypass',
    'x-aptos-ledger-version': String(sandbox.ledger.head.version)
  })
  const strict = await varveAtSandbox(t, {}, { follow: { mode: 'on', maxAgeMs: 0, verify: 0 } })
  for (let nth = 0; nth < 3; nth++) {
    strict.sandbox.ledger.grow()
    t.match((await strict.varve.get(quiet)).headers, {
      'cache-status': 'varve; fwd=bypass',
      'x-aptos-ledger-version': String(strict.sandbox.ledger.head.version)
    })
  }
})

t.test('a client that saw a version or its transaction reads at that version or later', async t => {
  const { sandbox, varve } = await following(t, { follow: { maxAgeMs: 3000 } })
  for (const by of ['by_version', 'by_hash', 'wait_by_hash']) {
    sandbox.ledger.grow(2)
    const { version } = sandbox.ledger.head
    const [{ hash = '' } = {}] = await fetch(`${sandbox.url}/v1/transactions?start=${version}`)
      .then(async response => await response.json()) as [{ hash?: string }?]
    const seen = await varve.get(`/v1/transactions/${by}/${by === 'by_version' ? version : hash}`)
    t.match(seen, { status: 200, headers: { 'x-aptos-ledger-version': String(version) } }, by)
    const [first, second] = await Promise.all([varve.get(quiet), varve.get(quiet)])
    for (const { headers } of [first, second]) t.equal(headers['x-aptos-ledger-version'], String(version), by)
    // Later ones may find the budget of tail reads used up, and are fetched then.
    if (by === 'by_version') t.match(first.headers['cache-status'], followedHit)
  }
})

t.test('waits for a transaction are held without the node, and end with one read of it', async t => {
  const { sandbox, varve } = await following(t)
  const pendingHash = (): string | undefined => pendingTransactions(sandbox.ledger, sandbox.ledger.height)[0]?.hash
  while (pendingHash() === undefined) sandbox.ledger.grow()
  const target = `/v1/transactions/wait_by_hash/${String(pendingHash())}`
  const readsOf = (endpoint: 'transaction_by_hash' | 'transaction_wait_by_hash'): number =>
    sandbox.requests.countFor(endpoint)
  const wait = async (): Promise<TestResponse> => {
    const response = await varve.get(target)
    return JSON.parse(response.body).type === 'pending_transaction' ? await wait() : response
  }
  const waiting = Array.from({ length: 150 }, wait)
  await until(() => readsOf('transaction_by_hash') > 0, 'a node answers first')
  sandbox.ledger.grow()
  const responses = await Promise.all(waiting)
  const [{ body = '' } = {}] = responses
  t.match(JSON.parse(body), { success: true, hash: target.slice(-66) })
  for (const response of responses) t.match(response, { status: 200, body })
  t.equal(readsOf('transaction_wait_by_hash'), 0)
  t.ok(readsOf('transaction_by_hash') < 30, `${readsOf('transaction_by_hash')} reads for 150 that wait`)
  t.ok((await varve.metric('varve_transaction_waits_total{result="committed"}') ?? 0) > 0, 'waits are counted')
  t.equal((await varve.get(target)).headers['cache-status'], 'varve; hit; detail=memory', 'what is committed is a hit')
})

t.test('a wait for an unknown transaction ends after a second with what the node said', async t => {
  const { sandbox, varve } = await following(t)
  const target = `/v1/transactions/wait_by_hash/0x${'ab'.repeat(32)}`
  const startedAtMs = performance.now()
  const { status, body } = await varve.get(target)
  t.ok(performance.now() - startedAtMs >= 990)
  t.same([status, body], [404, await (await fetch(`${sandbox.url}${target}`)).text()])
  t.equal(await varve.metric('varve_transaction_waits_total{result="timeout"}'), 1)
})

t.test('a client that leaves ends its wait, for which nothing is read any more', async t => {
  const { sandbox, varve } = await following(t)
  const client = new AbortController()
  const target = `/v1/transactions/wait_by_hash/0x${'ab'.repeat(32)}`
  const left = t.rejects(fetch(`${varve.url}${target}`, { signal: client.signal }))
  await until(() => sandbox.requests.countFor('transaction_by_hash') > 0, 'a node answers first')
  client.abort()
  await left
  await until(
    async () => await varve.metric('varve_transaction_waits_total{result="left"}') === 1,
    'the wait has ended'
  )
  t.equal(await varve.metric('varve_transaction_waits_total{result="timeout"}'), 0)
})

t.test('waits count for the limit of their client; those beyond it get a 429 at once', async t => {
  const { sandbox, varve } = await following(t, { limits: { client: { requestsPerSecond: 1, burst: 4 } } })
  const beganAtMs = performance.now()
  const statuses = await Promise.all(Array.from({ length: 30 }, async (_, nth) => {
    const { status } = await varve.get(`/v1/transactions/wait_by_hash/0x${String(nth).padStart(64, '0')}`)
    return status
  }))
  const held = statuses.filter(status => status === 404).length
  const most = 4 + Math.ceil((performance.now() - beganAtMs) / 1000)
  t.ok(held >= 2 && held <= most, `${held} of ${most}`)
  t.equal(statuses.filter(status => status === 429).length, 30 - held)
  t.equal(sandbox.requests.countFor('transaction_by_hash'), held)
})

t.test('a wait in BCS, or beside a tail that is read rarely, is left to the node', async t => {
  const { sandbox, varve } = await following(t)
  const rare = await following(t, { follow: { maxAgeMs: 2000 } })
  const target = `/v1/transactions/wait_by_hash/0x${'ab'.repeat(32)}`
  t.equal((await varve.get(target, { headers: { accept: 'application/x-bcs' } })).status, 404)
  t.equal((await rare.varve.get(target)).status, 404)
  for (const { requests } of [sandbox, rare.sandbox]) t.equal(requests.countFor('transaction_wait_by_hash'), 1)
})

t.test('transactions of newer forms are followed, and kept byte for byte', async t => {
  const { sandbox, varve } = await following(t, { follow: { maxAgeMs: 5000, verify: 1 } })
  const { ledger } = sandbox
  ledger.transactionInfo = 'v1'
  const forms = new Map<string, bigint>()
  const isNew =
    /"(?:v3|stake_pool_owner|delegated_voter|delegation_pool_delegator|decrypted|failed_decryption|slh_dsa_\w+)"/g
  while (forms.size < 7) {
    const from = ledger.head.version + 1n
    ledger.grow(20)
    for (let version = from; version <= ledger.head.version; version++) {
      const json = JSON.stringify(transactionRecord(ledger, ledger.blockOf(version), version))
      for (const [form] of json.matchAll(isNew)) forms.set(form, version)
    }
    await caughtUp(sandbox, varve)
    t.match((await varve.get(quiet)).headers['cache-status'], followedHit)
  }
  t.equal(await varve.metric('varve_follow_reads_total{result="failed"}'), 0)
  t.equal(await varve.metric('varve_follow_verified_total{result="unavailable"}'), 0)
  for (const [form, version] of forms) {
    for (const accept of ['application/json', 'application/x-bcs']) {
      const [target, headers] = [`/v1/transactions/by_version/${version}`, { accept }]
      const [first, second] = [await varve.get(target, { headers }), await varve.get(target, { headers })]
      t.ok(first.bytes.equals((await sendRequest(sandbox.url, target, { headers })).bytes), form)
      t.ok(first.bytes.equals(second.bytes))
      t.match(second.headers['cache-status'], 'varve; hit; detail=memory')
    }
  }
})

t.test('a minimum version brings the followed head up with one read of the tail for all that wait', async t => {
  const { sandbox, varve } = await following(t, { follow: { maxAgeMs: 5000 } })
  sandbox.ledger.grow(2)
  const version = String(sandbox.ledger.head.version)
  sandbox.requests.reset()
  const waiting = await Promise.all(
    Array.from(
      { length: 5 },
      async () => await varve.get(quiet, { headers: { 'x-varve-min-ledger-version': version } })
    )
  )
  for (const { status, headers } of waiting) {
    t.match({ status, headers }, {
      status: 200,
      headers: { 'x-aptos-ledger-version': version, 'cache-status': followedHit }
    })
  }
  t.equal(sandbox.requests.countFor('transactions'), 1)
})

t.test('the served head is the followed head, whatever upstreams stamp on other responses', async t => {
  const { sandbox, varve } = await following(t, { follow: { maxAgeMs: 60_000 } })
  const followed = String(sandbox.ledger.head.version)
  sandbox.ledger.grow(5)
  t.equal(
    (await varve.get(`${clock}?ledger_version=100`)).headers['x-aptos-ledger-version'],
    followed,
    'an old version'
  )
  t.equal((await varve.get(clock)).headers['x-aptos-ledger-version'], followed, 'a latest read')
  t.equal((await varve.get('/v1/blocks/by_height/150')).headers['x-aptos-ledger-version'], followed, 'an old block')
  t.equal(await varve.metric('varve_ledger_version'), Number(followed))
})

t.test('explicit versions inside a known interval are hits, also below the upstreams\' window', async t => {
  const { sandbox, varve } = await following(t)
  await varve.get(quiet)
  const from = sandbox.ledger.head.version
  sandbox.ledger.grow(20)
  await caughtUp(sandbox, varve)
  sandbox.requests.reset()
  const inside = await varve.get(`${quiet}?ledger_version=${from + 3n}`)
  t.match(inside.headers['cache-status'], 'varve; hit; detail=memory')
  sandbox.ledger.pruneTo(sandbox.ledger.head.blockHeight - 1n)
  await varve.get(`/v1/transactions/by_version/${sandbox.ledger.head.version}`)
  await until(async () => {
    const pruned = await varve.get(`${quiet}?ledger_version=${from + 3n}`)
    return pruned.headers['cache-status'] === 'varve; hit; detail=pruned' && pruned.body === inside.body
  }, 'it is served from the cache')
  t.equal(sandbox.requests.countFor('account_module'), 0)
})

t.test('a followed hit is 304 for a client that has the body, with the present position', async t => {
  const { sandbox, varve } = await following(t)
  const { etag = '' } = (await varve.get(quiet)).headers
  sandbox.ledger.grow()
  await caughtUp(sandbox, varve)
  t.match(await varve.get(quiet, { headers: { 'if-none-match': etag } }), {
    status: 304,
    headers: { etag, 'x-aptos-ledger-version': String(sandbox.ledger.head.version), 'cache-status': followedHit }
  })
})

t.test('equal views at one followed head cost one fetch', async t => {
  const { sandbox, varve } = await following(t, { follow: { maxAgeMs: 60_000 } })
  const run = async (): Promise<string | undefined> =>
    (await varve.get('/v1/view', { body: view, headers: { 'content-type': 'application/json' } }))
      .headers['cache-status'] as string
  await Promise.all([run(), run(), run()])
  t.equal(await run(), followedHit)
  t.equal(sandbox.requests.countFor('view'), 1)
})

t.test('a purge of a read also removes what its interval holds', async t => {
  const { varve } = await following(t, { admin: { token: 'secret' }, follow: { maxAgeMs: 60_000 } })
  t.match((await varve.get(quiet)).headers['cache-status'], /followed|stored/)
  t.equal((await varve.get(quiet)).headers['cache-status'], followedHit)
  const purged = await fetch(`${varve.adminUrl}/purge`, {
    method: 'POST',
    headers: { authorization: 'Bearer secret', 'content-type': 'application/json' },
    body: JSON.stringify({ method: 'GET', url: quiet })
  })
  t.equal(purged.status, 200)
  t.match((await varve.get(quiet)).headers['cache-status'], /uri-miss/)
})

t.test('an upstream without lists of transactions serves as before, and is reported once', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, { follow: { mode: 'on' } })
  sandbox.faults.add({ kind: 'error', code: 'api_disabled', status: 403, match: 'transactions' })
  for (let nth = 0; nth < 4; nth++) t.equal((await varve.get(quiet)).headers['cache-status'], 'varve; fwd=bypass')
  await until(
    async () => (await statusOf(varve)).degraded.some(text => text.includes('lists of transactions')),
    'degraded'
  )
  t.equal((await varve.get(quiet)).status, 200)
  t.equal(varve.log.filter(({ msg }) => String(msg).startsWith('following interrupted')).length, 1)
})

t.test('latest reads go on at upstreams while the tail fails, and are hits again afterwards', async t => {
  const { sandbox, varve } = await following(t)
  const fault = sandbox.faults.add({ kind: 'reset', match: 'transactions' })
  await until(async () => (await varve.get(quiet)).headers['cache-status'] === 'varve; fwd=bypass', 'it is forwarded')
  sandbox.ledger.grow()
  t.equal((await varve.get(quiet)).headers['x-aptos-ledger-version'], String(sandbox.ledger.head.version))
  fault.remove()
  await until(async () => (await varve.get(quiet)).headers['cache-status'] === followedHit, 'it is a hit again')
})

t.test('following stops where a page does not have the changes of its hash, until a reload', async t => {
  const { sandbox, varve } = await following(t, { follow: { verify: 1 } })
  sandbox.faults.add({ kind: 'tail', lie: 'droppedChange' })
  sandbox.ledger.grow(2)
  await until(async () => {
    await varve.get(quiet)
    return (await statusOf(varve)).follow?.state === 'stopped'
  }, 'it stopped')
  t.equal((await varve.get(quiet)).headers['cache-status'], 'varve; fwd=bypass')
  t.match((await statusOf(varve)).degraded, [/following stopped until a reload/])
  t.equal(await varve.metric('varve_follow_verified_total{result="different"}'), 1)
})

t.test('a transaction whose changes cannot be read may have changed every latest read', async t => {
  const { sandbox, varve } = await following(t)
  const modules = '/v1/accounts/0x1/modules?limit=1'
  await varve.get(modules)
  sandbox.faults.add({ kind: 'tail', lie: 'unknownChange' })
  sandbox.ledger.grow()
  await caughtUp(sandbox, varve)
  t.match((await varve.get(modules)).headers, { 'cache-status': /uri-miss; fwd-status=200; stored/ })
})

t.test('observing compares each latest response with what following would have served', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, { follow: { mode: 'observe', maxAgeMs: 100, verify: 0 } })
  const observed = async (result: string): Promise<number> =>
    await varve.metric(`varve_follow_observed_total{endpoint="account_module",result="${result}"}`) ?? 0
  await until(async () => {
    t.equal((await varve.get(quiet)).headers['cache-status'], 'varve; fwd=bypass')
    // No read of a version, and none that the ledger cannot answer for, is compared.
    for (const other of [`${quiet}?ledger_version=2000`, '/v1/estimate_gas_price']) await varve.get(other)
    sandbox.ledger.grow()
    return await observed('equal') >= 3
  }, 'equal responses are counted')
  t.equal(await observed('different'), 0)
})

t.test('a reset of the chain ends the followed head and all that was known from it', async t => {
  const { sandbox, varve } = await following(t)
  sandbox.reset({ blocks: 2000 })
  await until(async () => {
    const { headers, body } = await varve.get(clock)
    return headers['x-aptos-ledger-version'] === String(sandbox.ledger.head.version) &&
      body === await (await fetch(`${sandbox.url}${clock}`)).text()
  }, 'the new chain is served')
  // A forwarded response may arrive before the tail shows that its chain is another one.
  await until(async () => (await varve.metric('varve_chain_resets_total') ?? 0) >= 1, 'the reset is counted')
})

t.test('what was read of a chain before a reset proves nothing on the chain after it', async t => {
  const { sandbox, varve } = await following(t)
  sandbox.ledger.grow()
  await caughtUp(sandbox, varve)
  const { version, blockHeight } = sandbox.ledger.head
  let at = sandbox.ledger.block(blockHeight).firstVersion + 1n
  // Ends just below the old head, within versions that the newest block of the old chain has.
  sandbox.reset({ blocks: 1103 })
  // Without the tail only the reset shows that what was read is of another chain.
  sandbox.faults.add({ kind: 'hang', match: 'transactions' })
  await until(async () => {
    await varve.get('/v1')
    return await varve.metric('varve_chain_resets_total') === 1
  }, 'the reset is noticed')
  while (sandbox.ledger.blockOf(at).firstVersion !== at) at++
  t.ok(sandbox.ledger.head.version < version)
  await varve.get(`${clock}?ledger_version=${at}`)
  const earlier = `${clock}?ledger_version=${at - 1n}`
  t.equal((await varve.get(earlier)).body, await (await fetch(`${sandbox.url}${earlier}`)).text())
})

t.test('upstreams that lag behind the followed head serve a latest read as without following', async t => {
  const { sandbox, varve } = await following(t, { follow: { maxAgeMs: 60_000 } })
  const lag = sandbox.faults.add({ kind: 'lag', blocks: 2, match: 'account_resource' })
  t.match(await varve.get(clock), { status: 200, headers: { 'cache-status': 'varve; fwd=bypass' } })
  lag.remove()
  const broken = sandbox.faults.add({ kind: 'reset', match: 'account_resource' })
  t.match(await varve.get(clock), { status: 503 })
  broken.remove()
})

t.test('a pinned listing continues at the followed head of its first page', async t => {
  const { sandbox, varve } = await following(t, { pages: { pinned: true }, follow: { maxAgeMs: 60_000 } })
  const followed = sandbox.ledger.head.version
  sandbox.ledger.grow(3)
  const listing = '/v1/accounts/0x1/modules?limit=2'
  const cursors = [await varve.get(listing), await varve.get(listing)].map(({ headers }) => headers['x-aptos-cursor'])
  t.equal(cursors[0], cursors[1], 'a hit has the cursor of the fetch')
  const next = await varve.get(`${listing}&start=${String(cursors[0])}`)
  const [sent] = sandbox.requests.latest.slice(-1)
  t.equal(next.status, 200)
  t.match(sent?.url, `ledger_version=${followed}`)
})

t.test('a followed entry of a release that no longer runs is fetched again at the followed head', async t => {
  const { sandbox, varve } = await following(t, { head: { pollMs: 50 } })
  await varve.get(quiet)
  const before = (await varve.get(quiet)).body
  sandbox.ledger.release = releases.events
  await until(async () => {
    const { body } = await varve.get(quiet)
    return body !== before && body === await (await fetch(`${sandbox.url}${quiet}`)).text()
  }, 'the rendering of the new release is served')
})

t.test('an explicit version goes to the disk tier while varve follows, and is served from it', async t => {
  const path = testFolder(t)
  const { sandbox, varve } = await following(t, { cache: { disk: { path } }, follow: { maxAgeMs: 60_000 } })
  const target = `${clock}?ledger_version=${sandbox.ledger.head.version}`
  const first = await varve.get(target)
  await until(async () => await varve.metric('varve_cache_writes_total{tier="disk"}') === 1, 'it is on disk')
  await varve.stop({ drainMs: 0 })
  const other = await varveAt(t, sandbox.url, { cache: { disk: { path } } })
  const again = await other.get(target)
  t.equal(again.body, first.body)
  t.match(again.headers, { 'cache-status': 'varve; hit; detail=disk' })
  await other.stop({ drainMs: 0 })
})
