import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { sendRequest, type TestResponse } from './support/client.js'
import { OpenApiChecker, lintComplaints } from './support/openapi.js'
import { publicDocumentYaml } from './support/public-openapi.js'
import { varveAtSandbox } from './support/varve.js'
import { type OperationRequest, operationRequests } from './support/operation-requests.js'

const file = join(import.meta.dirname, '../docs/openapi.yaml')
const page = publicDocumentYaml()
const bcs = { accept: 'application/x-bcs' }

t.test('docs/openapi.yaml matches endpoints and schemas (RENEW=1 npm test -- test/openapi.test.ts)', async t => {
  if (process.env['RENEW'] === '1') writeFileSync(file, publicDocumentYaml())
  t.equal(readFileSync(file, 'utf8'), publicDocumentYaml())
})

t.test('an OpenAPI linter finds nothing in docs/openapi.yaml, but would find a duplicate id', async t => {
  t.same(await lintComplaints(page), [])
  t.match(await lintComplaints(page.replace('operationId: info', 'operationId: index')), [
    /operation-operationId-unique/
  ])
})

const checker = new OpenApiChecker(parse(page))

function check (
  t: Test,
  operationId: string,
  { status, headers, bytes }: TestResponse,
  wanted: number,
  what = ''
): void {
  t.equal(status, wanted, `${operationId} ${what}`)
  t.same(checker.complaints(operationId, { status, headers, body: bytes }), [], `${operationId} ${what} ${status}`)
}

t.test('every read through varve responds as documented: miss, hit, each form, and 304', async t => {
  const { varve, sandbox } = await varveAtSandbox(t)
  const [{ hash }] = JSON.parse((await sendRequest(sandbox.url, '/v1/transactions?limit=1')).body)
  const wished = operationRequests(hash)
  t.ok(checker.operations.size >= 18)
  for (const operationId of checker.operations.keys()) {
    const wish = wished[operationId] ?? { path: '' }
    const get = async (headers: Record<string, string> = {}): Promise<TestResponse> =>
      await varve.get(wish.path, { ...wish, headers: { ...wish.headers, ...headers } })
    const first = await get()
    check(t, operationId, first, 200)
    for (
      const name of [
        'chain-id',
        'ledger-version',
        'ledger-oldest-version',
        'ledger-timestampusec',
        'epoch',
        'block-height',
        'oldest-block-height'
      ]
    ) {
      t.ok(first.headers[`x-node-${name}`], `${operationId} ${name}`)
    }
    const again = await get({ 'if-none-match': String(first.headers.etag) })
    check(t, operationId, again, again.status === 304 ? 304 : 200)
    check(t, operationId, await get({ ...bcs, 'accept-encoding': 'gzip' }), 200, 'in BCS')
  }
  const block = await varve.get('/v1/blocks/by_version/2000', {})
  check(t, 'block_by_version', block, 200, 'miss')
  const hit = await varve.get('/v1/blocks/by_height/200', { headers: { 'if-none-match': '*' } })
  check(t, 'block_by_height', hit, 304, '304')
  check(t, 'block_by_version', await varve.get('/v1/blocks/by_version/2000'), 200, 'hit')
})

t.test('every error responds as documented, whether varve or an upstream made it', async t => {
  const { varve, sandbox } = await varveAtSandbox(t, { prunedBlocks: 500 }, { limits: { bodyKb: 1 } })
  const { table_item: item = { path: '' }, raw_table_item: raw = { path: '' } } = operationRequests('')
  const cases: ReadonlyArray<readonly [operationId: string, status: number, wish: OperationRequest]> = [
    ['account', 400, { path: '/v1/accounts/0x1?ledger_version=x' }],
    ['raw_table_item', 403, { ...raw, headers: { ...raw.headers, accept: 'application/json' } }],
    ['account', 404, { path: '/v1/accounts/0x1?ledger_version=999999999' }],
    ['account', 404, { path: '/v1/accounts/0x1', headers: { 'x-varve-min-ledger-version': '999999999' } }],
    ['account_resource', 404, { path: '/v1/accounts/0x1/resource/0x1::no::Thing' }],
    ['account', 410, { path: '/v1/accounts/0x1?ledger_version=1' }],
    ['block_by_height', 410, { path: '/v1/blocks/by_height/1' }],
    ['table_item', 413, { ...item, body: ' '.repeat(2000) }],
    ['table_item', 415, { ...item, headers: { ...item.headers, 'content-encoding': 'gzip' } }]
  ]
  for (const [operationId, status, wish] of cases) {
    check(t, operationId, await varve.get(wish.path, { ...wish }), status, wish.path)
  }
  sandbox.faults.add({ kind: 'error', code: 'internal_error' })
  check(t, 'account', await varve.get('/v1/accounts/0x1'), 500)
  sandbox.faults.clear()
  sandbox.faults.add({ kind: 'rateLimited' })
  check(t, 'account', await varve.get('/v1/accounts/0x1'), 429, 'of a gateway')
  await sandbox.close()
  check(t, 'account', await varve.get('/v1/accounts/0x1'), 503)
})

t.test('a missing key and an exceeded limit respond as documented', async t => {
  const { varve } = await varveAtSandbox(t, {}, {
    clients: { required: true, keys: [{ name: 'one', key: 'secret', requestsPerSecond: 1 }] }
  })
  check(t, 'account', await varve.get('/v1/accounts/0x1'), 401)
  for (const headers of [{ authorization: 'Bearer secret' }, { 'x-api-key': 'secret' }]) {
    const got = await varve.get('/v1/accounts/0x1', { headers })
    check(t, 'account', got, got.status === 429 ? 429 : 200)
  }
  check(t, 'account', await varve.get('/v1/accounts/0x2', { headers: { 'x-api-key': 'secret' } }), 429)
})
