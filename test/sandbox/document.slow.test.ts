import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { routes } from '../../sandbox/routes.js'
import { type Fault, type SandboxOptions, startSandbox } from '#sandbox'
import { pendingTransactions } from '../../sandbox/transactions.js'
import { OpenApiChecker, lintComplaints } from '../support/openapi.js'
import { type OperationRequest, operationRequests } from '../support/operation-requests.js'
import { requestNode, getRaw, type NodeResponse } from '../sandbox/request-node.js'
import { startSandboxNode } from '../support/replicas.js'

async function start (t: Test, options: SandboxOptions = {}) {
  const sandbox = await startSandboxNode(t, options)
  const checker = new OpenApiChecker((await requestNode(`${sandbox.url}/v1/spec.json`)).json)
  return { sandbox, checker }
}

const bcs = { accept: 'application/x-bcs' }
const errorOf = (status: number, code: string, stamped = status !== 403 && status !== 503): Fault => ({
  kind: 'error',
  status,
  code: code as 'internal_error',
  stamped,
  times: 1
})

t.test('every operation of the document responds as documented, in each form and with each error', async t => {
  const { sandbox, checker } = await start(t)
  const [{ hash }] = (await requestNode(`${sandbox.url}/v1/transactions?limit=1`)).json
  const requests = operationRequests(hash)
  t.same([...checker.operations.keys()].sort(), Object.keys(requests).sort())
  for (const [operationId, { responses }] of checker.operations) {
    const wish = requests[operationId] ?? { path: '' }
    const check = (got: NodeResponse, what: string): void => {
      t.same(checker.complaints(operationId, got), [], `${operationId}, ${what}`)
    }
    const forms = new Set<string>()
    for (const headers of [{}, bcs]) {
      const got = await requestNode(sandbox.url + wish.path, { ...wish, headers: { ...wish.headers, ...headers } })
      t.equal(got.status, 200)
      check(got, `as ${got.headers['content-type']}`)
      forms.add(String(got.headers['content-type']).replace(/;.*/, ''))
    }
    t.same([...forms], Object.keys(responses[200]?.content ?? {}), `forms of ${operationId}`)
    for (const status of Object.keys(responses).map(Number).filter(status => status !== 200)) {
      sandbox.faults.add(errorOf(status, 'internal_error'))
      const got = await requestNode(sandbox.url + wish.path, wish)
      t.equal(got.status, status)
      check(got, `with ${status}`)
    }
    t.match(await getRaw(sandbox.url, `${wish.path}<`), /^HTTP\/1\.1 400 /)
    t.same(
      checker.complaints(operationId, { status: 400, headers: {}, body: Buffer.alloc(0) }),
      [],
      `${operationId}, with a malformed target`
    )
  }
})

t.test('internal errors match the document too', async t => {
  const { sandbox, checker } = await start(t, { prunedBlocks: 500, bcsOutput: false })
  const { table_item: item = { path: '' }, view = { path: '' } } = operationRequests('')
  const cases: ReadonlyArray<readonly [operationId: string, status: number, wish: OperationRequest]> = [
    ['table_item', 400, { ...item, body: '{}' }],
    ['table_item', 400, { ...item, body: JSON.stringify({ key_type: 'u64', value_type: 'u65', key: '7' }) }],
    ['table_item', 403, { ...item, headers: { ...item.headers, ...bcs } }],
    ['table_item', 404, { ...item, path: '/v1/tables/0x5eed/item?ledger_version=999999999' }],
    ['table_item', 410, { ...item, path: '/v1/tables/0x5eed/item?ledger_version=1' }],
    ['table_item', 413, { path: '/v1/tables/0x5eed/item', method: 'POST', headers: { 'content-length': '99999999' } }],
    ['table_item', 415, { path: '/v1/tables/0x5eed/item', method: 'POST', body: '{}' }],
    ['raw_table_item', 403, { ...item, path: '/v1/tables/0x5eed/raw_item', body: '{"key":"0x"}' }],
    ['view', 400, { ...view, body: '{"function":"0x1::no::thing","type_arguments":[],"arguments":[]}' }],
    ['account_resource', 404, { path: '/v1/accounts/0x1/resource/0x1::no::Thing' }],
    ['account_module', 404, { path: '/v1/accounts/0x1/module/nothing' }],
    ['transaction_by_hash', 404, { path: `/v1/transactions/by_hash/0x${'0'.repeat(64)}` }],
    ['transactions', 400, { path: '/v1/transactions?start=999999999' }],
    ['account_modules', 400, { path: '/v1/accounts/0xg/modules' }],
    ['account_modules', 400, { path: '/v1/accounts/0x1/modules?limit=0' }],
    ['account_events', 404, { path: '/v1/accounts/0x1/events/0x1::no::Thing/events' }],
    ['account_events', 500, { path: '/v1/accounts/0x1/events/0x1::block::BlockResource/new_block_events?start=0' }],
    ['block_by_version', 404, { path: '/v1/blocks/by_version/999999999' }],
    ['block_by_height', 410, { path: '/v1/blocks/by_height/1' }],
    ['estimate_gas_price', 403, { path: '/v1/estimate_gas_price', headers: bcs }]
  ]
  for (const [operationId, status, wish] of cases) {
    const got = await requestNode(sandbox.url + wish.path, wish)
    t.equal(got.status, status, wish.path)
    t.same(checker.complaints(operationId, got), [], wish.path)
  }
})

t.test('every transaction kind of the document occurs in the ledger, and every block matches it', async t => {
  const { sandbox, checker } = await start(t, { prunedBlocks: 0, blocks: 120 })
  const met = new Set<string>()
  const meet = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return
    for (const [name, member] of Object.entries(value)) {
      if (typeof member === 'string') met.add(`${name} ${member}`)
      else meet(member)
    }
  }
  for (let height = 0; height <= sandbox.ledger.height; height++) {
    const got = await requestNode(`${sandbox.url}/v1/blocks/by_height/${height}?with_transactions=true`)
    t.same(checker.complaints('block_by_height', got), [], `block ${height}`)
    meet(got.json)
  }
  const [pendingTransaction] = pendingTransactions(sandbox.ledger, sandbox.ledger.height)
  const pending = await requestNode(
    `${sandbox.url}/v1/transactions/by_hash/${
      String(pendingTransaction && 'hash' in pendingTransaction && pendingTransaction.hash)
    }`
  )
  t.same(checker.complaints('transaction_by_hash', pending), [])
  meet(pending.json)
  t.ok(checker.kinds.length > 30)
  for (const kind of checker.kinds) t.ok(met.has(kind), kind)
})

t.test('the sandbox serves its document as JSON, YAML and a page, with all routes and header names', async t => {
  const { sandbox, checker } = await start(t, { family: 'x-other-' })
  for (const headers of [{}, bcs, { accept: 'text/html' }]) {
    const [page, json, yaml] = await Promise.all(
      ['', '.json', '.yaml'].map(async end => await requestNode(`${sandbox.url}/v1/spec${end}`, { headers }))
    )
    t.equal(json?.headers['content-type'], 'application/json')
    t.equal(yaml?.headers['content-type'], 'application/x-yaml')
    t.equal(page?.headers['content-type'], 'text/html; charset=utf-8')
    t.same(parse(yaml?.text ?? ''), json?.json)
    for (const path of Object.keys(checker.document.paths)) t.ok(page?.text.includes(`<code>${path}</code>`), path)
    for (const got of [page, json, yaml]) t.notOk(got?.names.some(name => name.startsWith('x-other-')))
  }
  t.equal(checker.document.openapi, '3.1.0')
  const documented = Object.entries(checker.document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map(method => `${method.toUpperCase()} ${path.replace(/\{[^}]+\}/g, ':')}`)
  )
  // Counts the index once, although it has two paths.
  t.same(documented, routes.map(({ method, path }) => `${method} /${path.join('/')}`).filter(key => key !== 'GET /v1/'))
  t.same(
    checker.complaints('index', await requestNode(`${sandbox.url}/v1/`)),
    [],
    'with the header names of that family'
  )
})

t.test('behind a path prefix the document names the prefix, and a linter accepts it', async t => {
  const { sandbox } = await start(t)
  const { url } = await startPrefixed(t)
  t.same((await requestNode(`${url}/v1/spec.json`)).json.servers, [{ url: '/key', description: 'This node.' }])
  t.same(await lintComplaints((await requestNode(`${sandbox.url}/v1/spec.yaml`)).text), [])
  t.match(
    await lintComplaints(
      (await requestNode(`${sandbox.url}/v1/spec.yaml`)).text.replace('summary: The position of the node', 'title: x')
    ),
    [/./],
    'the linter can find faults'
  )
})

async function startPrefixed (t: Test) {
  const sandbox = await startSandbox({ blockMs: 0, pathPrefix: '/key' })
  t.teardown(() => sandbox.close())
  return sandbox
}
