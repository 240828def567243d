import { type ServerResponse } from 'node:http'
import fc from 'fast-check'
import t from 'tap'
import { sendRequest } from '../support/client.js'
import { checkAsync, seedTitle } from '../support/properties.js'
import { respondOk, respondToIndex, stamps, startStubUpstream } from '../support/stub-upstream.js'
import { varveAt, varveAtSandbox } from '../support/varve.js'

const status = 'cache-status'
const at = (version: bigint | number): string => `/v1/blocks/by_version/${version}`
const bcs = { headers: { accept: 'application/x-bcs' } }
const stored = 'varve; fwd=uri-miss; fwd-status=200; stored'
const hit = 'varve; hit; detail=memory'
const settled = { success: true, accumulator_root_hash: '0xab' }

t.test('one read of a block is a hit for every version inside it, and for none outside', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  // Includes blocks of 12,000 versions, of 3,500, and of one.
  for (const height of [500, 900, 402, 452]) {
    const { firstVersion: first, lastVersion: last } = sandbox.ledger.block(height)
    sandbox.requests.reset()
    const middle = await varve.get(at((first + last) / 2n))
    t.equal(middle.headers[status], stored, String(height))
    for (const version of [first, last]) {
      const got = await varve.get(at(version))
      t.match(got, { status: 200, body: middle.body, headers: { [status]: hit, etag: middle.headers.etag } })
      t.equal(got.body, (await sendRequest(sandbox.url, at(version))).body)
    }
    t.equal(sandbox.requests.countFor('block_by_version'), 3, 'one request of varve, two of the test')
    for (const version of [first - 1n, last + 1n]) {
      const got = await varve.get(at(version))
      t.not(got.body, middle.body)
      t.equal(got.body, (await sendRequest(sandbox.url, at(version))).body)
    }
  }
})

t.test('concurrent reads of versions in one block leave one entry, which then serves all', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  const { firstVersion: first } = sandbox.ledger.block(500)
  const versions = [0n, 0n, 7n, 7n, 11_999n].map(step => first + step)
  const got = await Promise.all(versions.map(async version => await varve.get(at(version))))
  t.same([...new Set(got.map(({ body }) => body))], [got[0]?.body])
  t.ok(sandbox.requests.countFor('block_by_version') <= 3, 'at most one read per version')
  t.equal(await varve.metric('varve_cache_entries{tier="memory"}'), 1)
  sandbox.requests.reset()
  for (const version of [...versions, first + 5000n]) t.equal((await varve.get(at(version))).headers[status], hit)
  t.equal(sandbox.requests.total, 0)
})

t.test('blocks with and without transactions, in JSON and BCS, are stored apart and read once each', async t => {
  for (const blockBcs of ['bare', 'option'] as const) {
    const { sandbox, varve } = await varveAtSandbox(t)
    sandbox.ledger.blockBcs = blockBcs
    const { firstVersion: first, lastVersion: last } = sandbox.ledger.block(452)
    t.ok(last > first)
    const etags = new Set<string | undefined>()
    for (const query of ['', '?with_transactions=true']) {
      for (const how of [{}, bcs]) {
        const direct = await sendRequest(sandbox.url, at(first) + query, how)
        const got = [
          await varve.get(at(first) + query, how),
          await varve.get(at(last) + query, how),
          await varve.get(`${at(first)}${query === '' ? '?with_transactions=false' : query}`, how)
        ]
        t.same(got.map(({ headers }) => headers[status]), [stored, hit, hit], `${blockBcs} ${query}`)
        for (const { bytes } of got) t.same(bytes, direct.bytes)
        etags.add(got[0]?.headers.etag)
      }
    }
    t.equal(etags.size, 4)
    t.equal(sandbox.requests.countFor('block_by_version'), 8)
  }
})

t.test('the newest block is fetched each time, until another follows', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  const version = sandbox.ledger.head.version
  for (const how of [{}, bcs]) {
    for (let round = 0; round < 2; round++) {
      t.match(await varve.get(at(version), how), {
        status: 200,
        headers: { [status]: 'varve; fwd=uri-miss; fwd-status=200; detail=newest_block', 'cache-control': 'no-store' }
      })
    }
  }
  t.equal(sandbox.requests.countFor('block_by_version'), 4)
  t.equal(await varve.metric('varve_not_stored_total{endpoint="block_by_version",reason="newest_block"}'), 4)
  sandbox.ledger.grow(1)
  for (const how of [{}, bcs]) {
    t.match([await varve.get(at(version), how), await varve.get(at(version), how)], [
      { headers: { [status]: stored } },
      { headers: { [status]: hit } }
    ])
  }
})

t.test('a block that the upstream cut short is forwarded and never stored, in JSON and in BCS', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, { blockTransactionsMax: 3 })
  const { firstVersion: first, lastVersion: last } = sandbox.ledger.block(452)
  t.ok(last - first >= 3n)
  for (const how of [{}, bcs]) {
    for (let round = 0; round < 2; round++) {
      t.match(await varve.get(`${at(first)}?with_transactions=true`, how), {
        status: 200,
        headers: { [status]: 'varve; fwd=uri-miss; fwd-status=200; detail=truncated_block' }
      })
    }
    t.equal((await varve.get(at(first), how)).headers[status], stored, 'the block without transactions is whole')
  }
  const whole = sandbox.ledger.block(451)
  t.match(
    (await varve.get(`${at(whole.firstVersion)}?with_transactions=true`)).headers,
    { [status]: stored },
    'so is a block at the upstream\'s limit'
  )
})

const blockBody = (change: Record<string, unknown> = {}): string =>
  JSON.stringify({
    block_height: '50',
    block_hash: '0xab',
    block_timestamp: '5',
    first_version: '500',
    last_version: '509',
    transactions: null,
    ...change
  })

async function versionsOf (
  t: Parameters<typeof startStubUpstream>[0],
  respond: (response: ServerResponse) => void,
  targets: readonly string[]
): Promise<Array<[number, unknown]>> {
  const varve = await varveAt(
    t,
    (await startStubUpstream(t, (_request, response) => {
      respond(response)
    })).url
  )
  const got: Array<[number, unknown]> = []
  for (const target of targets) {
    const { status: code, headers } = await varve.get(target)
    got.push([code, /hit|stored|detail=\w+/.exec(String(headers[status]))?.[0]])
  }
  return got
}

t.test('a block without the requested version becomes a 503, and is not stored for it', async t => {
  t.same(
    await versionsOf(t, response => {
      respondOk(response, blockBody())
    }, [at(499), at(510), at(505), at(505)]),
    [[503, 'detail=unavailable'], [503, 'detail=unavailable'], [200, 'stored'], [200, 'hit']]
  )
})

t.test('a false block that overlaps cached ones leaves one response per version', async t => {
  const bodies = [
    blockBody(),
    blockBody({ block_height: '51', first_version: '510', last_version: '600' }),
    blockBody({ block_height: '52', first_version: '505', last_version: '700' })
  ]
  const stub = await startStubUpstream(t, (_request, response, nth) => {
    respondOk(response, bodies[nth - 1] ?? blockBody())
  })
  const varve = await varveAt(t, stub.url)
  for (const version of [505, 510, 650]) t.equal((await varve.get(at(version))).headers[status], stored)
  t.match([await varve.get(at(507)), await varve.get(at(595))], [{ body: bodies[2], headers: { [status]: hit } }, {
    body: bodies[2],
    headers: { [status]: hit }
  }])
  t.match(await varve.get(at(501)), { headers: { [status]: stored } }, 'the overlapped block is fetched again')
  t.equal(await varve.metric('varve_cache_entries{tier="memory"}'), 1)
})

t.test('JSON blocks with transactions are fetched again on a new release; other blocks are not', async t => {
  const targets: [string, typeof bcs | undefined][] = [
    [at(505), undefined],
    [`${at(505)}?with_transactions=true`, undefined],
    [at(505), bcs],
    [`${at(505)}?with_transactions=true`, bcs]
  ]
  const head = Buffer.alloc(64)
  for (const [value, offset] of [[50n, 0], [500n, 48], [509n, 56]] as const) head.writeBigUInt64LE(value, offset)
  let release = 'aaaa'
  const stub = await startStubUpstream(t, (request, response) => {
    const isBcs = request.headers.accept === bcs.headers.accept
    const withTransactions = request.url?.includes('true') === true
    const transactions = withTransactions ? Array(10).fill({ ...settled, release }) : null
    if (!isBcs) return respondOk(response, blockBody({ transactions }))
    response.writeHead(200, { 'content-type': bcs.headers.accept, ...stamps() }).end(
      Buffer.concat([head, withTransactions ? Buffer.from([10, ...Array<number>(10).fill(7)]) : Buffer.alloc(0)])
    )
  }, (request, response) => {
    if (release === 'aaaa') respondToIndex(request, response)
    else response.writeHead(200, { 'content-type': 'application/json', ...stamps() }).end('{"git_hash":"bbbb"}')
  })
  const varve = await varveAt(t, stub.url, { head: { pollMs: 10 } })
  for (const [target, how] of targets) t.equal((await varve.get(target, how)).headers[status], stored)
  release = 'bbbb'
  let refetched = await varve.get(`${at(505)}?with_transactions=true`)
  // The poll learns the release within its interval.
  for (let tries = 0; !refetched.body.includes('bbbb') && tries < 500; tries++) {
    refetched = await varve.get(`${at(505)}?with_transactions=true`)
  }
  t.match(refetched.body, 'bbbb')
  for (const [target, how] of targets) t.equal((await varve.get(target, how)).headers[status], hit)
  t.equal(stub.requests.length, targets.length + 1)
})

t.test(`in any order of versions blocks match the upstream, read once in each form (${seedTitle})`, async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  const distinct = new Set<string>()
  const first = sandbox.ledger.block(700).firstVersion
  let direct = 0
  await checkAsync(
    fc.asyncProperty(
      fc.bigInt(0n, 300n),
      fc.constantFrom('', '?with_transactions=true'),
      fc.constantFrom({}, bcs),
      async (step, query, how) => {
        const version = first + step
        const form = `${sandbox.ledger.blockOf(version).height}${query}${how === bcs}`
        const got = await varve.get(at(version) + query, how)
        direct++
        if (!got.bytes.equals((await sendRequest(sandbox.url, at(version) + query, how)).bytes)) {
          throw new Error(`${at(version)}${query} differs from the upstream`)
        }
        if ((got.headers[status] === hit) !== distinct.has(form)) {
          throw new Error(`${String(got.headers[status])} for ${form}`)
        }
        distinct.add(form)
      }
    )
  )
  t.equal(sandbox.requests.countFor('block_by_version') - direct, distinct.size)
  t.equal(await varve.metric('varve_cache_entries{tier="memory"}'), distinct.size)
})
