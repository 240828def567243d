import t from 'tap'
import { releases } from '#sandbox'
import { Ledger } from '../../sandbox/ledger.js'
import { defaultSettings } from '../../sandbox/options.js'
import { addressOf } from '../../sandbox/address.js'
import { stateAt } from '../../sandbox/state.js'
import { itemKey } from '../../sandbox/state-key.js'
import { transactionRecord } from '../../sandbox/transactions.js'
import { requestNode, getRaw } from './request-node.js'
import { sendRaw } from '../support/raw.js'
import { startSandboxNode } from '../support/replicas.js'

const position = [
  'x-aptos-chain-id',
  'x-aptos-ledger-version',
  'x-aptos-ledger-oldest-version',
  'x-aptos-ledger-timestampusec',
  'x-aptos-epoch',
  'x-aptos-block-height',
  'x-aptos-oldest-block-height'
]

t.test('a success has the seven position headers, in lower case and in wire order', async t => {
  const { url, ledger } = await startSandboxNode(t)
  const index = await requestNode(`${url}/v1`)
  t.same(index.names, ['content-type', ...position, 'x-aptos-txn-encryption-key', 'content-length', 'date'])
  t.equal(index.headers['content-type'], 'application/json; charset=utf-8')
  const { head, oldest } = ledger
  t.same(position.map(name => index.headers[name]), [
    '4',
    `${head.version}`,
    `${oldest.version}`,
    `${head.timestampUsec}`,
    `${head.epoch}`,
    `${head.blockHeight}`,
    `${oldest.blockHeight}`
  ])
  t.same(index.json, {
    chain_id: 4,
    epoch: `${head.epoch}`,
    ledger_version: `${head.version}`,
    oldest_ledger_version: `${oldest.version}`,
    ledger_timestamp: `${head.timestampUsec}`,
    node_role: 'full_node',
    oldest_block_height: '100',
    block_height: '999',
    git_hash: releases.variants,
    encryption_key: null
  })
  t.equal((await requestNode(`${url}/v1/`)).text, index.text)
  ledger.release = releases.enums
  t.equal((await requestNode(`${url}/v1/`)).json.git_hash, releases.enums)
})

t.test('blocks tile the versions, times rise, and every version has its block, also near 2^64', async t => {
  for (const startVersion of [0n, 2n ** 53n + 1n, 2n ** 64n - 60_000n]) {
    const { ledger } = await startSandboxNode(t, { startVersion, blocks: 1_600 })
    t.equal(ledger.block(0).firstVersion, startVersion)
    const sizes = new Set<bigint>()
    for (let height = 1; height <= ledger.height; height++) {
      const [before, block] = [ledger.block(height - 1), ledger.block(height)]
      sizes.add(block.lastVersion - block.firstVersion + 1n)
      if (block.firstVersion !== before.lastVersion + 1n || block.timestampUsec <= before.timestampUsec) {
        t.fail(`block ${height}`)
      }
      if (
        ledger.blockOf(block.firstVersion).height !== block.height ||
        ledger.blockOf(block.lastVersion).height !== block.height
      ) t.fail(`versions of ${height}`)
    }
    for (const size of [1n, 2n, 9n, 12_000n, 3_500n, 6_000n]) t.ok(sizes.has(size), `a block of ${size}`)
    t.equal(ledger.block(500).lastVersion - ledger.block(500).firstVersion, 11_999n)
    t.equal(ledger.head.version, ledger.block(ledger.height).lastVersion)
  }
})

t.test('the oldest version follows pruning and the window, and never goes back', async t => {
  const { ledger } = await startSandboxNode(t, { blocks: 50, prunedBlocks: 10, windowBlocks: 45 })
  t.equal(ledger.oldest.blockHeight, 10n)
  ledger.grow(20)
  t.equal(ledger.oldest.blockHeight, 25n)
  ledger.pruneTo(60n)
  ledger.pruneTo(3)
  t.equal(ledger.oldest.blockHeight, 60n)
  ledger.pruneTo(1_000)
  t.same(ledger.oldest, { version: ledger.block(69).firstVersion, blockHeight: 69n })
  t.throws(() => ledger.block(70), RangeError)
})

t.test('the chain grows by itself if configured', async t => {
  const { ledger } = await startSandboxNode(t, { blockMs: 1, blocks: 5, release: releases.events })
  t.equal(ledger.release, releases.events)
  const before = ledger.head
  while (ledger.head.blockHeight < before.blockHeight + 2n) await new Promise(resolve => setImmediate(resolve))
  t.ok(ledger.head.version > before.version)
  t.ok(ledger.head.timestampUsec > before.timestampUsec)
})

t.test('node info has no position, and another member order each time', async t => {
  const { url } = await startSandboxNode(t, { chainId: 1 })
  const [first, second] = [await requestNode(`${url}/v1/info`), await requestNode(`${url}/v1/info`)]
  t.same(first.names, ['content-type', 'content-length', 'date'])
  t.same(first.json, second.json)
  t.not(first.text, second.text)
  t.equal(first.json.chain_id, 'mainnet')
  t.equal((await requestNode(`${(await startSandboxNode(t, { chainId: 77 })).url}/v1/info`)).json.chain_id, '77')
  const hosted = await startSandboxNode(t, { infoIsIndex: true })
  t.equal((await requestNode(`${hosted.url}/v1/info`)).json.chain_id, 4)
})

t.test('gas estimates are numbers, health is a message, and both have the position', async t => {
  const { url } = await startSandboxNode(t)
  const gas = await requestNode(`${url}/v1/estimate_gas_price`)
  t.match(gas.json, { deprioritized_gas_estimate: Number, gas_estimate: Number, prioritized_gas_estimate: Number })
  const bytes = await requestNode(`${url}/v1/estimate_gas_price`, { headers: { accept: 'application/x-bcs' } })
  t.equal(bytes.headers['content-type'], 'application/x-bcs')
  t.equal(bytes.body.readBigUInt64LE(), BigInt(gas.json.gas_estimate))
  const health = await requestNode(`${url}/v1/-/healthy`)
  t.same(health.json, { message: 'aptos-node:ok' })
  for (const response of [gas, bytes, health]) t.ok(response.headers['x-aptos-ledger-version'])
})

t.test('the index has a form in BCS, and node info has none', async t => {
  const { url, ledger } = await startSandboxNode(t, { blocks: 20, prunedBlocks: 0 })
  const headers = { accept: 'application/x-bcs' }
  const { body } = await requestNode(`${url}/v1`, { headers })
  t.equal(body.length, 1 + 8 * 4 + 1 + 8 * 2)
  t.equal(body.readBigUInt64LE(9), ledger.head.version)
  t.match((await requestNode(`${url}/v1/info`, { headers })).headers['content-type'], /json/)
})

t.test('HEAD is GET without the body', async t => {
  const { url } = await startSandboxNode(t)
  const head = await requestNode(`${url}/v1`, { method: 'HEAD' })
  t.equal(head.status, 200)
  t.equal(head.headers['content-length'], String((await requestNode(`${url}/v1`)).body.length))
  t.equal(head.body.length, 0)
})

t.test('a target that is not valid HTTP gets a 400 without a body, and one too long a 414', async t => {
  const { url } = await startSandboxNode(t)
  for (const target of ['/v1/<', '/v1/a>', '/v1/`', '/v1#x', '/v1?a=<', '/v1?a="', '/v1?a#b']) {
    t.match(
      await getRaw(url, target),
      /^HTTP\/1\.1 400 Bad Request\r\ncontent-length: 0\r\ndate: [^\r]+\r\n\r\n$/,
      target
    )
  }
  t.match(await getRaw(url, '/v1/\xc3\xa9'), /^HTTP\/1\.1 400 /)
  t.match(await sendRaw(url, 'not a request\r\n\r\n'), /^HTTP\/1\.1 400 .*content-length: 0\r\n\r\n$/s)
  t.match(await getRaw(url, `/v1?a=${'x'.repeat(70_000)}`), /^HTTP\/1\.1 414 /)
  for (const target of ['/v1?a={}|^`', 'http://elsewhere/v1', '/v1?limit=x&&=&y']) {
    t.match(await getRaw(url, target), /^HTTP\/1\.1 200 OK\r\n/, target)
  }
  t.match(await getRaw(url, '/v1/"{}|^'), /^HTTP\/1\.1 404 Not Found\r\n/)
  t.match(await getRaw(url, 'http://elsewhere'), /^HTTP\/1\.1 404 Not Found\r\n/)
})

t.test('the header family and a path prefix before /v1 are configurable', async t => {
  const { url } = await startSandboxNode(t, { family: 'x-node-', pathPrefix: '/key123' })
  t.match(url, /\/key123$/)
  t.ok((await requestNode(`${url}/v1`)).headers['x-node-ledger-version'])
  t.equal((await requestNode(`${new URL(url).origin}/v1`)).status, 404)
  t.equal((await requestNode(`${new URL(url).origin}/sandbox`)).status, 200)
})

t.test('the sandbox is inspected and controlled over HTTP, which does not count as requests', async t => {
  const { url, ledger, faults, requests } = await startSandboxNode(t, { blocks: 20, prunedBlocks: 0 })
  const state = await requestNode(`${url}/sandbox`)
  t.match(state.json, {
    head: { blockHeight: '19' },
    oldest: { version: '0' },
    requests: { total: 0 },
    faults: [],
    options: { seed: 1 }
  })
  await requestNode(`${url}/sandbox/grow?blocks=5`, { method: 'POST' })
  await requestNode(`${url}/sandbox/grow`, { method: 'POST' })
  t.equal(ledger.head.blockHeight, 25n)
  await requestNode(`${url}/sandbox/prune?height=7`, { method: 'POST' })
  t.equal(ledger.oldest.blockHeight, 7n)
  const added = await requestNode(`${url}/sandbox/faults`, {
    method: 'POST',
    body: '{"kind":"panic200","match":"index"}'
  })
  t.same(added.json.faults, [{ kind: 'panic200', match: 'index' }])
  t.equal((await requestNode(`${url}/v1`)).json.error_code, 'internal_error')
  await requestNode(`${url}/sandbox/faults`, { method: 'DELETE' })
  t.same(faults.list, [])
  t.equal(requests.total, 1)
  for (
    const [path, method, body] of [['/grow?blocks=x', 'POST'], ['/prune', 'POST'], ['/faults', 'POST', '{'], [
      '/faults',
      'POST',
      '{"kind":"toString"}'
    ]] as const
  ) {
    t.equal((await requestNode(`${url}/sandbox${path}`, { method, ...body && { body } })).status, 400, path)
  }
  t.equal((await requestNode(`${url}/sandbox/nothing`)).status, 404)
})

t.test('a reset begins another chain without faults', async t => {
  const sandbox = await startSandboxNode(t, { blocks: 50, prunedBlocks: 0 })
  const rootAt = async () =>
    (await requestNode(`${sandbox.url}/v1/transactions/by_version/9`)).json.accumulator_root_hash
  const first = await rootAt()
  sandbox.faults.add({ kind: 'rateLimited' })
  sandbox.reset({ blocks: 60 })
  t.equal(sandbox.ledger.height, 59)
  const second = await rootAt()
  t.not(second, first)
  t.equal((await requestNode(`${sandbox.url}/sandbox/reset?seed=1`, { method: 'POST' })).status, 200)
  t.equal(await rootAt(), first)
  t.match((await requestNode(`${sandbox.url}/sandbox/reset?seed=x`, { method: 'POST' })).status, 400)
})

t.test('blocks have as many transactions as asked for', async t => {
  const { ledger } = await startSandboxNode(t, { blocks: 100, prunedBlocks: 0, blockTransactions: 50 })
  const mean = Number(ledger.head.version) / 99
  t.ok(mean > 45 && mean < 60, `${mean}`)
})

const hottest = itemKey(addressOf('5eed'), Buffer.from('0700000000000000', 'hex'))

t.test('pruning bounds what is remembered', async t => {
  const options = { ...defaultSettings, blocks: 1, prunedBlocks: 0, windowBlocks: 20, blockTransactions: 3 }
  const ledger = new Ledger(options)
  const keysAfter = (blocks: number): number => {
    for (let block = 0; block < blocks; block++) {
      ledger.grow()
      stateAt(ledger, hottest, ledger.head.version)
    }
    return ledger.state.size
  }
  const before = keysAfter(3_000)
  const after = keysAfter(3_000)
  // Some cold keys are first written late; a booking that stays would add one key for each cycle of 128 versions.
  t.ok(after < before + 50, `${before}, then ${after} keys`)
  const real = new Ledger({ ...options, blocks: 3_000, realLeaves: true })
  transactionRecord(real, real.block(real.height), real.head.version)
  t.throws(() => real.accumulator.rootOf(1_000), { message: /was dropped/ })
})
