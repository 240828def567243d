import t from 'tap'
import { requestNode } from '../sandbox/request-node.js'
import { startSandboxNode } from '../support/replicas.js'

const bcs = { accept: 'application/x-bcs' }

async function firstPendingHash ({ url, ledger }: Awaited<ReturnType<typeof startSandboxNode>>): Promise<string> {
  for (;;) {
    const [hash] = (await requestNode(`${new URL(url).origin}/sandbox`)).json.waiting
    if (hash !== undefined) return hash
    ledger.grow()
  }
}

t.test('a transaction by version, by hash and in its block is the same', async t => {
  const { url, ledger } = await startSandboxNode(t, { prunedBlocks: 0 })
  for (const height of [0, 1, 7, 400, 501, 999]) {
    const block = (await requestNode(`${url}/v1/blocks/by_height/${height}?with_transactions=true`)).text
    for (let { firstVersion: version, lastVersion } = ledger.block(height); version <= lastVersion; version++) {
      const one = await requestNode(`${url}/v1/transactions/by_version/${version}`)
      t.equal(one.json.version, `${version}`)
      t.ok(block.includes(one.text))
      for (const hash of [one.json.hash, one.json.hash.slice(2).toUpperCase(), `0%2578${one.json.hash.slice(2)}`]) {
        const found = await requestNode(`${url}/v1/transactions/by_hash/${hash}`)
        t.equal(found.text, one.text)
        t.ok(found.headers['x-aptos-chain-id'])
      }
      const bytes = await requestNode(`${url}/v1/transactions/by_version/${version}`, { headers: bcs })
      t.equal(bytes.headers['content-type'], 'application/x-bcs')
      t.same([bytes.body[0], bytes.body.readBigUInt64LE(1)], [0, version])
      t.ok(
        (await requestNode(`${url}/v1/transactions/by_hash/${one.json.hash}`, { headers: bcs })).body.equals(bytes.body)
      )
      t.ok(
        (await requestNode(`${url}/v1/blocks/by_height/${height}?with_transactions=true`, { headers: bcs })).body
          .includes(
            bytes.body.subarray(1)
          )
      )
    }
  }
  t.equal((await requestNode(`${url}/v1/transactions/by_version/%252B007`)).json.version, '7')
})

t.test('a pending transaction is reported so, and is committed under its hash as the chain grows', async t => {
  const sandbox = await startSandboxNode(t)
  const hash = await firstPendingHash(sandbox)
  const { url, ledger } = sandbox
  const pending = await requestNode(`${url}/v1/transactions/by_hash/${hash}`)
  t.equal(pending.status, 200)
  t.match(pending.json, { hash, type: 'pending_transaction', sender: /^0x/, sequence_number: /^\d+$/, payload: Object })
  for (const member of ['version', 'success', 'events', 'changes']) t.notOk(member in pending.json, member)
  t.ok(pending.headers['x-aptos-chain-id'])
  t.same([...(await requestNode(`${url}/v1/transactions/by_hash/${hash}`, { headers: bcs })).body.subarray(0, 1)], [1])
  ledger.grow()
  const { type, ...request } = pending.json
  const committed = await requestNode(`${url}/v1/transactions/by_hash/${hash}`)
  t.match(committed.json, { ...request, type: 'user_transaction', version: /^\d+$/ })
  t.equal(committed.text, (await requestNode(`${url}/v1/transactions/by_version/${committed.json.version}`)).text)
  sandbox.faults.add({ kind: 'lag', blocks: 1 })
  t.equal(
    (await requestNode(`${url}/v1/transactions/by_hash/${hash}`)).text,
    pending.text,
    'it is still pending on a lagging node'
  )
  sandbox.faults.clear()
  sandbox.faults.add({ kind: 'lag', blocks: 2 })
  t.equal((await requestNode(`${url}/v1/transactions/by_hash/${hash}`)).status, 404)
})

t.test('the hash of a transaction that was pruned is not found', async t => {
  const { url, ledger } = await startSandboxNode(t)
  const { hash } = (await requestNode(`${url}/v1/transactions/by_version/${ledger.oldest.version}`)).json
  t.equal((await requestNode(`${url}/v1/transactions/by_hash/${hash}`)).status, 200)
  ledger.pruneTo(150)
  for (const read of ['by_hash', 'wait_by_hash']) {
    t.match(await requestNode(`${url}/v1/transactions/${read}/${hash}`), {
      status: 404,
      json: { error_code: 'transaction_not_found' }
    })
  }
})

t.test('transactions are listed from a version, the last ones by default, up to the limit', async t => {
  const { url, ledger } = await startSandboxNode(t)
  const { version: head } = ledger.head
  const versions = async (query: string) =>
    (await requestNode(`${url}/v1/transactions${query}`)).json.map((each: any) => BigInt(each.version))
  const run = (first: bigint, count: number) => Array.from({ length: count }, (_, index) => first + BigInt(index))
  t.same(await versions(''), run(head - 24n, 25))
  t.same(await versions('?limit=3'), run(head - 2n, 3))
  t.same(await versions('?limit=5000'), run(head - 99n, 100))
  t.same(await versions(`?start=${head - 4n}`), run(head - 4n, 5))
  t.same(await versions(`?start=00${ledger.oldest.version}&limit=40`), run(ledger.oldest.version, 40))
  t.same(await versions(`?start=${head}&limit=1`), [head])
  const page = await requestNode(`${url}/v1/transactions?start=${head - 1n}&limit=2`)
  t.equal(
    page.text,
    `[${
      (await Promise.all(
        [head - 1n, head].map(async version => (await requestNode(`${url}/v1/transactions/by_version/${version}`)).text)
      )).join(',')
    }]`
  )
  const bytes = (await requestNode(`${url}/v1/transactions?start=${head - 1n}&limit=2`, { headers: bcs })).body
  t.same([bytes[0], bytes.readBigUInt64LE(1)], [2, head - 1n])
  const young = await startSandboxNode(t, { blocks: 2, prunedBlocks: 0 })
  t.equal((await requestNode(`${young.url}/v1/transactions`)).json.length, Number(young.ledger.head.version) + 1)
  while ((await requestNode(`${young.url}/v1/accounts/0xa11ce`)).json.sequence_number !== '2') young.ledger.grow()
  t.same(
    (await requestNode(`${young.url}/v1/accounts/0xa11ce/transactions`)).json.map((each: any) => each.sequence_number),
    ['0', '1']
  )
})

t.test('an account\'s transactions have every sequence number below its next one', async t => {
  const { url, ledger } = await startSandboxNode(t, { prunedBlocks: 0, blocks: 1_600 })
  for (const account of ['0xa11ce', '0xb0b']) {
    const { sequence_number: next } = (await requestNode(`${url}/v1/accounts/${account}`)).json
    const seen: any[] = []
    for (let start = 0; start < Number(next); start += 100) {
      seen.push(...(await requestNode(`${url}/v1/accounts/${account}/transactions?start=${start}&limit=100`)).json)
    }
    t.same(seen.map(each => each.sequence_number), Array.from({ length: Number(next) }, (_, index) => `${index}`))
    t.ok(seen.length > 100 && seen.every(each => each.sender === account && each.type === 'user_transaction'))
    const [one] = seen.slice(-7)
    t.equal(
      (await requestNode(`${url}/v1/accounts/${account}?ledger_version=${one.version}`)).json.sequence_number,
      `${BigInt(one.sequence_number) + 1n}`
    )
    t.equal(
      (await requestNode(`${url}/v1/accounts/${account}?ledger_version=${BigInt(one.version) - 1n}`)).json
        .sequence_number,
      one.sequence_number
    )
    t.same((await requestNode(`${url}/v1/transactions/by_version/${one.version}`)).json, one)
    t.same((await requestNode(`${url}/v1/accounts/${account}/transactions`)).json, seen.slice(-25))
    t.same((await requestNode(`${url}/v1/accounts/${account}/transactions?limit=2`)).json, seen.slice(-2))
    t.same(
      (await requestNode(`${url}/v1/accounts/${account}/transactions?limit=1000&start=3`)).json,
      seen.slice(3, 103)
    )
    t.equal((await requestNode(`${url}/v1/accounts/${account}/transactions?start=${next}`)).text, '[]')
    t.equal((await requestNode(`${url}/v1/accounts/${account}/transactions?limit=3`, { headers: bcs })).body[0], 3)
  }
  ledger.pruneTo(500)
  const transactions = (await requestNode(`${url}/v1/accounts/0xa11ce/transactions?start=0&limit=100`)).json
  t.ok(transactions.length > 0 && transactions.every((each: any) => BigInt(each.version) >= ledger.oldest.version))
})

t.test('waiting by hash ends with the commit, at once if nothing is pending, or at the timeout', async t => {
  const sandbox = await startSandboxNode(t, { waitByHashMs: 60_000 })
  const hash = await firstPendingHash(sandbox)
  const { url, ledger } = sandbox
  let hasResponded = false
  const pending = requestNode(`${url}/v1/transactions/wait_by_hash/${hash}`).finally(() => {
    hasResponded = true
  })
  while (sandbox.requests.countFor('transaction_wait_by_hash') === 0) {
    await new Promise(resolve => setImmediate(resolve))
  }
  await requestNode(`${url}/v1`)
  t.notOk(hasResponded)
  ledger.grow()
  const response = await pending
  t.match(response.json, { hash, type: 'user_transaction' })
  t.equal(
    (await requestNode(`${url}/v1/transactions/wait_by_hash/${hash}`)).text,
    (await requestNode(`${url}/v1/transactions/by_hash/${hash}`)).text
  )
  const hasty = await startSandboxNode(t, { waitByHashMs: 40 })
  const other = await firstPendingHash(hasty)
  t.match((await requestNode(`${hasty.url}/v1/transactions/wait_by_hash/${other}`)).json, {
    hash: other,
    type: 'pending_transaction'
  })
})
