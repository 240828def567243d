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

t.test('a lagging sandbox reports and reads an older head, at the end of a block', async t => {
  const { url, faults, ledger } = await start(t)
  const { version, blockHeight } = ledger.head
  const index = async () => (await requestNode(`${url}/v1`)).json
  let lag = faults.add({ kind: 'lag', blocks: 10 })
  t.match(await index(), {
    block_height: `${blockHeight - 10n}`,
    ledger_version: `${ledger.block(blockHeight - 10n).lastVersion}`
  })
  t.match(await requestNode(`${url}/v1/blocks/by_version/${version}`), {
    status: 404,
    json: { error_code: 'version_not_found' }
  })
  ledger.grow(3)
  t.match(await index(), { block_height: `${blockHeight - 7n}` })
  lag.remove()
  for (const versions of [0, 1, 7, 40]) {
    lag = faults.add({ kind: 'lag', versions })
    const reportedVersion = BigInt((await index()).ledger_version)
    t.ok(
      reportedVersion <= ledger.head.version - BigInt(versions) &&
        reportedVersion > ledger.head.version - BigInt(versions) - 9n,
      `${versions}`
    )
    t.equal(ledger.blockOf(reportedVersion).lastVersion, reportedVersion)
    lag.remove()
  }
  faults.add({ kind: 'lag', versions: 1_000_000 })
  t.match(await index(), { block_height: '0', oldest_block_height: '0' })
})

t.test('another chain has another id, or a lower version, a later time and other blocks', async t => {
  const { url, faults, ledger } = await start(t)
  const truth = await requestNode(`${url}/v1/blocks/by_version/${ledger.block(60).firstVersion}`)
  const other = faults.add({ kind: 'otherChain', chainId: 9, blocks: 300 })
  t.match((await requestNode(`${url}/v1`)).json, { chain_id: 9, block_height: '299' })
  other.remove()
  faults.add({ kind: 'otherChain' })
  const { json, headers } = await requestNode(`${url}/v1`)
  t.equal(json.chain_id, 4)
  t.ok(BigInt(json.ledger_version) < ledger.head.version)
  t.ok(BigInt(json.ledger_timestamp) > ledger.head.timestampUsec)
  t.equal(headers['x-aptos-ledger-version'], json.ledger_version)
  t.not(
    (await requestNode(`${url}/v1/blocks/by_version/${ledger.block(60).firstVersion}`)).json.block_hash,
    truth.json.block_hash
  )
})
