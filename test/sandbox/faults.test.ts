import t, { type Test } from 'tap'
import { startSandbox } from '#sandbox'
import { requestNode, getRaw } from './request-node.js'
import { sendRaw } from '../support/raw.js'

async function start (t: Test) {
  const sandbox = await startSandbox({ blockMs: 0, blocks: 200, prunedBlocks: 50 })
  t.teardown(() => sandbox.close())
  return sandbox
}

t.test('a fault strikes matching requests, as often as set, until it is removed', async t => {
  const { url, faults } = await start(t)
  faults.add({ kind: 'panic200', match: 'info', times: 1 })
  t.equal((await requestNode(`${url}/v1`)).json.chain_id, 4)
  const struck = await requestNode(`${url}/v1/info`)
  t.equal(struck.status, 200)
  t.same(struck.names, ['content-type', 'content-length', 'date'])
  t.equal(struck.headers['content-type'], 'application/json')
  t.equal(struck.text, '{"message":"internal error","error_code":"internal_error","vm_error_code":null}')
  t.equal((await requestNode(`${url}/v1/info`)).json.chain_id, 'testing')
  const forEver = faults.add({ kind: 'html' })
  for (const path of ['/v1', '/v1/info', '/nothing']) {
    const page = await requestNode(url + path)
    t.match(page, { status: 200, text: /<html>/ })
    t.equal(page.headers['content-type'], 'text/html; charset=utf-8')
    t.notOk(page.headers['x-aptos-chain-id'])
  }
  forEver.remove()
  t.equal((await requestNode(`${url}/v1`)).json.chain_id, 4)
  faults.add({ kind: 'html', share: 0.5 })
  let pages = 0
  for (let index = 0; index < 60; index++) if (/html/.test((await requestNode(`${url}/v1`)).text)) pages++
  t.ok(pages > 15 && pages < 45, `${pages}`)
  faults.clear()
  t.same(faults.list, [])
})

t.test('an error fault has the shape, the status and the position headers of full nodes', async t => {
  const { url, faults } = await start(t)
  const struck = async (fault: Parameters<typeof faults.add>[0]) => {
    faults.add({ ...fault, times: 1 })
    return await requestNode(`${url}/v1`)
  }
  const internal = await struck({ kind: 'error', code: 'internal_error', message: 'ledger version too new' })
  t.equal(internal.status, 500)
  t.same(internal.json, { message: 'ledger version too new', error_code: 'internal_error', vm_error_code: null })
  t.ok(internal.headers['x-aptos-chain-id'])
  const starting = await struck({ kind: 'error', code: 'node_not_bootstrapped' })
  t.equal(starting.status, 503)
  t.equal(starting.json.error_code, 'node_not_bootstrapped')
  t.notOk(starting.headers['x-aptos-chain-id'])
  const full = await struck({ kind: 'error', code: 'mempool_is_full' })
  t.equal(full.status, 507)
  const unready = await struck({ kind: 'error', code: 'internal_error', status: 503 })
  t.equal(unready.status, 503)
  t.notOk(unready.headers['x-aptos-chain-id'])
  t.ok(
    (await struck({ kind: 'error', code: 'internal_error', status: 503, stamped: true })).headers['x-aptos-chain-id']
  )
  t.notOk((await struck({ kind: 'error', code: 'version_pruned', stamped: false })).headers['x-aptos-chain-id'])
  t.notOk((await struck({ kind: 'error', code: 'api_disabled' })).headers['x-aptos-chain-id'])
  t.equal(
    (await struck({ kind: 'error', code: 'web_framework_error', status: 413 })).headers['content-type'],
    'application/json'
  )
  const limited = await struck({ kind: 'rateLimited', retryAfter: '7' })
  t.match(limited, {
    status: 429,
    text: /^Per anonymous IP rate limit exceeded\./,
    headers: { 'content-type': 'text/plain; charset=utf-8', 'retry-after': '7' }
  })
  t.equal((await struck({ kind: 'rateLimited' })).headers['retry-after'], '1')
})

t.test('faults can reset a connection, fill it with garbage, or end it within the body', async t => {
  const { url, faults } = await start(t)
  const truth = await requestNode(`${url}/v1`)
  faults.add({ kind: 'reset', times: 1 })
  await t.rejects(requestNode(`${url}/v1`), { code: 'ECONNRESET' })
  faults.add({ kind: 'garbage', times: 1 })
  t.equal(await getRaw(url, '/v1'), '\0\u0001 this is not HTTP\r\n\r\n')
  faults.add({ kind: 'cutShort', times: 1 })
  const cut = await sendRaw(url, 'GET /v1 HTTP/1.1\r\nhost: node\r\n\r\n')
  t.ok(cut.includes(`content-length: ${truth.body.length}\r\n`))
  t.equal(cut.split('\r\n\r\n')[1], truth.text.slice(0, Math.floor(truth.text.length / 2)))
  faults.add({ kind: 'cutShort', chunked: true, times: 1 })
  const chunked = await sendRaw(url, 'GET /v1 HTTP/1.1\r\nhost: node\r\n\r\n')
  t.notOk(/content-length/.test(chunked))
  t.ok(chunked.endsWith(`\r\n${truth.body.length.toString(16)}\r\n${truth.text}\r\n`))
  faults.add({ kind: 'cutShort', times: 1 })
  faults.add({ kind: 'body', body: '1', times: 1 })
  t.match(await sendRaw(url, 'GET /v1 HTTP/1.1\r\nhost: node\r\n\r\n'), /content-length: 1\r\n.*\r\n\r\n$/s)
})

t.test('a hanging request gets no response, and closing the sandbox ends it', async t => {
  const { url, faults, requests, close } = await start(t)
  const hold = faults.hold('index')
  faults.add({ kind: 'hang' })
  const hanging = requestNode(`${url}/v1`)
  await hold.arrived
  hold.release()
  t.equal(requests.countFor('index'), 1)
  setImmediate(() => {
    close().catch(t.fail)
  })
  await t.rejects(hanging, { code: 'ECONNRESET' })
})
