import fc from 'fast-check'
import t from 'tap'
import { targetOf } from '../src/api/read.js'
import { matchEndpoint, readRequest } from '../src/api/read-request.js'
import { ErrorResponse } from '../src/api/error-response.js'
import { startSandbox } from '#sandbox'
import { type TestResponse, sendRequest, tableItemLookup } from './support/client.js'
import { ownOutcomeIn } from './support/cache-status.js'
import { checkAsync, seedTitle } from './support/properties.js'
import { type RequestVariant, isRejectedRequest, mayDiffer, requestVariant } from './support/request-variants.js'
import { varveAtSandbox } from './support/varve.js'

const status = 'cache-status'
const modules = '/v1/accounts/0x1/modules?ledger_version=2000&limit=2'
const table = '/v1/tables/0x5eed/item?ledger_version=2000'

t.test('a miss is followed by a hit, also as another request variant with the position moved on', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  const miss = await varve.get(modules)
  t.match(miss, {
    status: 200,
    headers: { [status]: 'varve; fwd=uri-miss; fwd-status=200; stored', 'x-node-block-height': '999' }
  })
  t.match(await varve.get(modules), {
    status: 200,
    body: miss.body,
    headers: { [status]: 'varve; hit; detail=memory' }
  })
  sandbox.ledger.grow(5)
  // Any response moves the position on; here it is a latest read of another endpoint.
  await varve.get('/v1/accounts/0x42/modules')
  const variant = await varve.get('/v1/accounts/0000001/modules?limit=02&ledger_version=%2B2000')
  t.match(variant, {
    status: 200,
    body: miss.body,
    headers: {
      [status]: 'varve; hit; detail=memory',
      'x-node-block-height': '1004',
      'x-node-ledger-version': String(sandbox.ledger.head.version)
    }
  })
  t.equal(variant.headers['x-node-cursor'], miss.headers['x-node-cursor'], 'the cursor belongs to the response')
  t.equal(sandbox.requests.countFor('account_modules'), 2)
})

t.test('a page walk through varve is the upstream\'s own listing, under both header families', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  const whole = JSON.parse(
    (await sendRequest(sandbox.url, '/v1/accounts/0x1/modules?ledger_version=2000')).body
  ) as unknown[]
  for (const name of ['x-node-cursor', 'x-aptos-cursor']) {
    const walked: unknown[] = []
    let start = ''
    do {
      const page = await varve.get(`/v1/accounts/0x1/modules?ledger_version=2000&limit=10${start}`)
      walked.push(...JSON.parse(page.body) as unknown[])
      start = page.headers[name] === undefined ? '' : `&start=${String(page.headers[name])}`
    } while (start !== '')
    t.same(walked, whole)
  }
  t.equal(
    sandbox.requests.countFor('account_modules'),
    1 + Math.ceil(whole.length / 10),
    'the second walk is served from the cache'
  )
})

t.test('table items of every kind are the upstream\'s, byte for byte in JSON and BCS, and read once', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  const kinds: [string, string, string][] = [
    ['u64', '"7"', 'u64'],
    ['u64', '"7"', 'u128'],
    ['u64', '"7"', 'bool'],
    ['u64', '"7"', 'address'],
    ['u64', '"7"', 'vector<u8>'],
    ['u64', '"7"', '0x1::string::String'],
    ['u64', '"7"', '0x42::game::Cell'],
    ['0x1::string::String', '"alice"', 'u64'],
    ['0x42::game::Cell', '{"x":"1","y":"2","owner":"0x1"}', 'u64'],
    ['address', '"0xcafe"', 'u64'],
    ['u8', '3', 'vector<u64>']
  ]
  for (const [keyType, key, valueType] of kinds) {
    for (const accept of ['application/json', 'application/x-bcs']) {
      const request = tableItemLookup(keyType, key, valueType)
      const options = { ...request, headers: { ...request.headers as Record<string, string>, accept } }
      const direct = await sendRequest(sandbox.url, table, options)
      for (let round = 0; round < 2; round++) {
        const got = await varve.get(table, options)
        t.same([got.status, got.bytes, got.headers['content-type']], [
          direct.status,
          direct.bytes,
          direct.headers['content-type']
        ], `${keyType} ${key} as ${valueType} in ${accept}`)
        t.equal(String(got.headers[status]).includes('hit'), round === 1)
      }
    }
  }
  t.equal(sandbox.requests.countFor('table_item'), 4 * kinds.length)
})

t.test('a latest read is stored at the version that it was read at', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  const latest = await varve.get('/v1/tables/0x5eed/item', tableItemLookup('u64', '"7"'))
  const at = String(latest.headers['x-node-ledger-version'])
  t.equal(at, String(sandbox.ledger.head.version))
  sandbox.ledger.grow(100)
  t.match(await varve.get(`/v1/tables/0x5eed/item?ledger_version=${at}`, tableItemLookup('u64', '"007"')), {
    body: latest.body,
    headers: { [status]: 'varve; hit; detail=memory' }
  })
  t.match(await varve.get('/v1/tables/0x5eed/item', tableItemLookup('u64', '"7"')), {
    headers: { [status]: 'varve; fwd=bypass', 'x-node-ledger-version': String(sandbox.ledger.head.version) }
  })
  t.equal(sandbox.requests.countFor('table_item'), 2)
})

t.test('the upstream\'s 410 passes untouched, and cached history is served beyond the window', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  const cached = await varve.get(modules)
  sandbox.ledger.grow(1)
  sandbox.ledger.pruneTo(600)
  const other = modules.replace('0x1', '0x42')
  const direct = await sendRequest(sandbox.url, other)
  t.match(await varve.get(other), {
    status: 410,
    body: direct.body,
    headers: { [status]: 'varve; fwd=uri-miss; fwd-status=410; detail=status', 'x-node-oldest-block-height': '600' }
  })
  t.match(await varve.get(modules), {
    status: 200,
    body: cached.body,
    headers: { [status]: 'varve; hit; detail=pruned' }
  })
  t.equal(await varve.metric('varve_pruned_requests_total{endpoint="account_modules",answer="upstream"}'), 1)
  t.equal(await varve.metric('varve_pruned_requests_total{endpoint="account_modules",answer="cache"}'), 1)
  t.ok((await varve.metric('varve_pruned_distance_versions_sum{endpoint="account_modules"}') ?? 0) > 0)
})

t.test('versions above 2^53 are exact', async t => {
  const startVersion = 2n ** 63n
  const { sandbox, varve } = await varveAtSandbox(t, { startVersion })
  const version = sandbox.ledger.block(700).firstVersion
  const bodies = new Set<string>()
  for (const each of [version, version + 1n, version + 2n]) {
    const target = `/v1/tables/0x5eed/item?ledger_version=${each}`
    const direct = await sendRequest(sandbox.url, target, tableItemLookup('u64', '"99"'))
    const got = await varve.get(target, tableItemLookup('u64', '"99"'))
    t.same([got.status, got.body], [direct.status, direct.body])
    bodies.add(got.body)
  }
  t.equal(sandbox.requests.countFor('table_item'), 6, 'each version is a read of its own')
  t.match((await varve.get(modules.replace('2000', String(version)))).headers, {
    'x-node-ledger-version': String(sandbox.ledger.head.version)
  })
})

t.test('clients get the header names of the specification and of the upstream, whichever it uses', async t => {
  const { varve } = await varveAtSandbox(t, { family: 'x-movement-' })
  t.match((await varve.get(modules)).headers, {
    'x-movement-block-height': '999',
    'x-node-block-height': '999',
    'x-movement-cursor': /^00/,
    'x-node-cursor': /^00/
  })
})

t.test('an upstream behind a path prefix is requested there', async t => {
  const { varve } = await varveAtSandbox(t, { pathPrefix: '/key123' })
  t.match(await varve.get(modules), { status: 200 })
})

t.test('each upstream fault becomes an error that is never stored, and the next read succeeds', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, { upstream: { timeoutMs: 1500 } })
  const faults: [Parameters<typeof sandbox.faults.add>[0], number][] = [
    [{ kind: 'hang' }, 503],
    [{ kind: 'cutShort' }, 503],
    [{ kind: 'cutShort', chunked: true }, 503],
    [{ kind: 'garbage' }, 503],
    [{ kind: 'html' }, 503],
    [{ kind: 'panic200' }, 503],
    [{ kind: 'otherChain', chainId: 9 }, 503],
    [{ kind: 'headers', set: { 'content-encoding': 'gzip' } }, 503],
    [{ kind: 'error', code: 'internal_error' }, 500],
    [{ kind: 'error', code: 'api_disabled' }, 403],
    [{ kind: 'rateLimited', retryAfter: '3' }, 429],
    [{ kind: 'error', code: 'internal_error', status: 503 }, 503]
  ]
  let version = 3000
  for (const [fault, expected] of faults) {
    const target = `/v1/accounts/0x42/modules?ledger_version=${version++}`
    sandbox.faults.add({ match: 'account_modules', times: 1, ...fault })
    t.match(await varve.get(target), { status: expected }, JSON.stringify(fault))
    t.match(await varve.get(target), { status: 200, headers: { [status]: /stored/ } }, 'the next read succeeds')
  }
})

t.test('a hit is served with the upstream gone', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  const cached = await varve.get(modules)
  await sandbox.close()
  t.match(await varve.get(modules), { status: 200, body: cached.body, headers: { [status]: /hit/ } })
  t.match(await varve.get('/v1/accounts/0x42/modules?ledger_version=2000'), {
    status: 503,
    headers: { 'retry-after': '1' }
  })
  t.match(await sendRequest(varve.adminUrl, '/readyz'), { status: 200, body: /node is down/ })
  t.equal(await varve.metric('varve_upstream_up{upstream="node"}'), 0)
})

t.test('a latest read from a lagging upstream is fetched again, and carries its own stamp', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  await varve.get(modules)
  const lag = sandbox.faults.add({ kind: 'lag', blocks: 10 })
  const behind = await varve.get('/v1/accounts/0x1/modules?limit=1')
  t.match(behind.headers, { 'x-node-block-height': '989' })
  t.equal(await varve.metric('varve_stale_latest_total'), 1)
  t.match(
    (await varve.get(modules)).headers,
    { 'x-node-block-height': '999' },
    'the position shown on hits never goes back'
  )
  t.match(await varve.get(`/v1/accounts/0x1/modules?limit=1&ledger_version=${sandbox.ledger.head.version}`), {
    status: 503
  }, 'a version at the served head is not denied')
  lag.remove()
  t.match(await varve.get(`/v1/accounts/0x1/modules?limit=1&ledger_version=${sandbox.ledger.head.version}`), {
    status: 200
  })
})

t.test('on a new release an old rendering is fetched again, and not served', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, { head: { pollMs: 10 } })
  const old = await varve.get(modules)
  sandbox.ledger.release = '1'.repeat(40)
  const direct = await sendRequest(sandbox.url, modules)
  t.not(direct.body, old.body)
  let got = await varve.get(modules)
  // The poll learns the release within its interval; until then the old rendering is current.
  for (let tries = 0; got.body === old.body && tries < 500; tries++) got = await varve.get(modules)
  t.equal(got.body, direct.body)
})

t.test(`every response matches the upstream while the ledger grows and prunes (${seedTitle})`, async t => {
  // Truncates blocks, since the largest take a second each.
  const options = { blockTransactionsMax: 50 }
  const { sandbox, varve } = await varveAtSandbox(t, options, { latest: { indexMs: 0, gasMs: 0 } })
  // The same chain without pruning: the reference for what varve serves beyond the upstream's window.
  const archive = await startSandbox({ ...options, blockMs: 0 })
  t.teardown(async () => {
    await archive.close()
  })
  await checkAsync(
    fc.asyncProperty(requestVariant, fc.nat(9), async (variant, step) => {
      if (step === 0) { for (const { ledger } of [sandbox, archive]) ledger.grow() }
      if (step === 1) sandbox.ledger.pruneTo(Number(sandbox.ledger.oldest.blockHeight) + 1)
      for (let round = 0; round < 2; round++) {
        const got = await send(varve.url, variant)
        const cacheStatus = String(got.headers[status])
        const direct = await send(
          (cacheStatus.endsWith('detail=pruned') ? archive : sandbox).url,
          ownOutcomeIn(cacheStatus) !== undefined ? variant : atStampedVersion(variant, got)
        )
        // Compares varve's own 410 with the upstream, unless the upstream rejects the request first; other rejections
        // match the upstream or are stricter on purpose.
        if (ownOutcomeIn(cacheStatus) !== undefined && (got.status !== 410 || isRejectedRequest(direct))) {
          if (got.status < 500 && mayDiffer(variant, direct)) return
          throw new Error(`rejected with ${JSON.stringify(got)}, but the upstream responds ${JSON.stringify(direct)}`)
        }
        // The upstream's rejection may quote a text that varve sent in its canonical variant.
        const same = got.status === direct.status &&
          (isRejectedRequest(direct) || JSON.stringify(responseTo(got)) === JSON.stringify(responseTo(direct)))
        if (!same) throw new Error(`${JSON.stringify(got)} is not ${JSON.stringify(direct)}`)
      }
    }),
    150
  )
})

const responseTo = (
  { bytes, headers }: TestResponse
): unknown => [bytes.toString('latin1'), String(headers['content-type']).split(';', 1), headers['x-aptos-cursor']]

async function send (
  url: string,
  { method, target, accept, contentType, body }: RequestVariant
): Promise<TestResponse> {
  const headers = {
    ...(accept !== undefined && { accept }),
    ...(contentType !== undefined && { 'content-type': contentType })
  }
  return await sendRequest(url, target, { method, headers, ...(body !== undefined && { body }) })
}

/** Turns a latest read into a read at the version of its stamp: both must return the same. */
function atStampedVersion (variant: RequestVariant, got: TestResponse): RequestVariant {
  const version = got.headers['x-node-ledger-version']
  const match = matchEndpoint(variant.target, variant.method)
  if (match === undefined || version === undefined || match.endpoint.keyedBy !== 'version') return variant
  try {
    const read = readRequest(match, {
      method: variant.method,
      accept: variant.accept,
      contentType: variant.contentType,
      body: Buffer.from(variant.body ?? '')
    })
    return read.ledgerVersion === undefined && got.status < 400
      ? { ...variant, target: targetOf({ ...read, ledgerVersion: BigInt(String(version)) }) }
      : variant
  } catch (error) {
    if (error instanceof ErrorResponse) return variant
    throw error
  }
}
