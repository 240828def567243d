import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { endpoints } from '../src/api/endpoints.js'
import { minVersionHeader } from '../src/api/read-request.js'
import { pendingTransactions } from '../sandbox/transactions.js'
import { sendRequest, type TestResponse } from './support/client.js'
import { type OperationRequest, lintComplaints, operationRequests, strictChecker } from './support/openapi.js'
import { varveAtSandbox } from './support/varve.js'

const page = readFileSync(join(import.meta.dirname, '../docs/openapi.yaml'), 'utf8')
const document = parse(page)
const checker = strictChecker(document)
const bcs = { accept: 'application/x-bcs' }

t.test('docs/openapi.yaml has every read of varve, with its parameters and when it is cached', async t => {
  for (const { name, method, path, query, why } of endpoints) {
    const route = path.map(part => typeof part === 'string' ? part : `{${part.name}}`).join('/')
    const operation = document.paths[`/${route}`]?.[method.toLowerCase()]
    t.equal(operation?.operationId, name)
    t.same(
      operation.parameters.map(({ $ref }: { $ref: string }) =>
        document.components.parameters[$ref.replace(/.*\//, '')].name
      ),
      [
        ...path.flatMap(part => typeof part === 'string' ? [] : part.name),
        ...Object.keys(query),
        minVersionHeader,
        'If-None-Match'
      ],
      name
    )
    t.ok(operation.description.endsWith(`: ${why}.`), name)
  }
  t.equal(checker.operations.size, endpoints.length)
})

t.test('an OpenAPI linter finds nothing in docs/openapi.yaml', async t => {
  t.same(await lintComplaints(page), [])
})

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

// Forms of real nodes that the embedded node does not make up, since varve forwards them without reading them.
const leftOut = new Set([
  'type multi_ed25519_signature',
  'type abstraction_signature',
  'type module_bundle_payload',
  'validator_transaction_type chunky_d_k_g_result',
  'type script_write_set'
])

t.test('every documented kind of transaction occurs, and each block responds as documented', async t => {
  const { varve, sandbox } = await varveAtSandbox(t, { prunedBlocks: 0, blocks: 64 })
  while (pendingTransactions(sandbox.ledger, sandbox.ledger.height).length === 0) sandbox.ledger.grow()
  const met = new Set<string>()
  const meet = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return
    for (const [name, member] of Object.entries(value)) {
      if (typeof member === 'string') met.add(`${name} ${member}`)
      else meet(member)
    }
  }
  for (let height = 0; height <= sandbox.ledger.height; height++) {
    const got = await varve.get(`/v1/blocks/by_height/${height}?with_transactions=true`)
    check(t, 'block_by_height', got, 200, String(height))
    meet(JSON.parse(got.body))
  }
  const [pending] = pendingTransactions(sandbox.ledger, sandbox.ledger.height)
  const got = await varve.get(`/v1/transactions/by_hash/${pending?.hash}`)
  check(t, 'transaction_by_hash', got, 200, 'pending')
  meet(JSON.parse(got.body))
  t.ok(checker.kinds.length > 30)
  for (const kind of checker.kinds) t.equal(met.has(kind), !leftOut.has(kind), kind)
  for (const kind of leftOut) t.ok(checker.kinds.includes(kind), kind)
  const newForms = [
    'type v3',
    'type slh_dsa__sha2_128s',
    'encrypted_state decrypted',
    'encrypted_state failed_decryption'
  ]
  const limits = ['stake_pool_owner', 'delegated_voter'].map(name => `type ${name}`)
  for (const form of [...newForms, ...limits]) t.ok(met.has(form), form)
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
