import t from 'tap'
import { BcsReader } from '../../sandbox/bcs.js'
import { printTypeTag, readStructTagBytes, structTagBytes } from '../../sandbox/type-tag.js'
import { requestNode, type NodeResponse } from './request-node.js'
import { startSandboxNode } from '../support/replicas.js'

const bcs = { accept: 'application/x-bcs' }
const coins = '0x1::coin::CoinStore%3C0x1::aptos_coin::AptosCoin%3E'
const framework = { error_code: 'web_framework_error', vm_error_code: null }

t.test('a resource by type is the item of the listing, in JSON and BCS, at every version', async t => {
  const { url, ledger } = await startSandboxNode(t, { prunedBlocks: 0 })
  for (const account of ['0x1', '0xcafe', '0xa11ce', '0xa']) {
    for (const version of [0n, 1_234n, ledger.block(500).firstVersion, ledger.head.version]) {
      const listing = await requestNode(`${url}/v1/accounts/${account}/resources?ledger_version=${version}`)
      t.equal(listing.headers['content-type'], 'application/json; charset=utf-8')
      t.ok(listing.json.length > 0)
      for (const item of listing.json) {
        t.same(Object.keys(item), ['type', 'data'])
        const one = await requestNode(
          `${url}/v1/accounts/${account}/resource/${encodeURIComponent(item.type)}?ledger_version=${version}`
        )
        t.equal(one.text, JSON.stringify(item), item.type)
        t.ok(listing.text.includes(one.text))
      }
    }
  }
  const whole = await requestNode(`${url}/v1/accounts/0xcafe/resources`, { headers: bcs })
  t.equal(whole.headers['content-type'], 'application/x-bcs')
  const types: string[] = (await requestNode(`${url}/v1/accounts/0xcafe/resources`)).json.map((item: any) => item.type)
  t.equal(whole.body[0], types.length)
  for (const type of types) {
    const { body } = await requestNode(`${url}/v1/accounts/0xcafe/resource/${encodeURIComponent(type)}`, {
      headers: bcs
    })
    t.ok(whole.body.includes(body), type)
  }
  // BCS orders a map by the bytes of its keys, the listing does not.
  const reader = new BcsReader(whole.body)
  const entries = reader.readItems(() => ({ tag: readStructTagBytes(reader), value: reader.readSizedBytes() }))
  reader.requireEnd()
  const printed = entries.map(({ tag }) => printTypeTag(tag))
  t.same(printed.toSorted(), types.toSorted())
  t.not(printed[0], types[0])
  const keys = entries.map(({ tag }) => structTagBytes(tag))
  t.same(keys, keys.toSorted((one, other) => one.compare(other)))
})

t.test('resources come in pages ordered by state key, and each page continues the last', async t => {
  const { url } = await startSandboxNode(t, { resourcesPage: 28 })
  const first = await requestNode(`${url}/v1/accounts/0xcafe/resources?limit=5000`)
  t.equal(first.json.length, 28)
  t.match(first.headers['x-aptos-cursor'], /^00[0-9a-f]+$/)
  const walked: string[] = []
  let cursor: string | undefined = ''
  while (cursor !== undefined) {
    const page: NodeResponse = await requestNode(
      `${url}/v1/accounts/0xcafe/resources?limit=4${cursor && `&start=${cursor.toUpperCase()}`}`
    )
    t.ok(page.json.length <= 4)
    walked.push(...page.json.map((item: any) => item.type))
    cursor = page.headers['x-aptos-cursor'] as string | undefined
    if (cursor !== undefined) {
      t.same(page.names.slice(-4), ['x-aptos-txn-encryption-key', 'x-aptos-cursor', 'content-length', 'date'])
    }
  }
  t.ok(walked.length > 28)
  t.equal(new Set(walked).size, walked.length)
  t.same(walked.slice(0, 28), first.json.map((item: any) => item.type))
  t.equal((await requestNode(`${url}/v1/accounts/0x1/resources?limit=11`)).headers['x-aptos-cursor'], undefined)
  const modules = (await requestNode(`${url}/v1/accounts/0xcafe/modules?limit=1`)).headers['x-aptos-cursor']
  t.equal((await requestNode(`${url}/v1/accounts/0xcafe/resources?start=${modules}&limit=1`)).status, 200)
  const key = String(first.headers['x-aptos-cursor'])
  t.equal((await requestNode(`${url}/v1/accounts/0xcafe/modules?start=${key}`)).text, '[]')
  for (
    const bad of [
      '',
      'zz',
      key.slice(0, -2),
      `${key}00`,
      `01${key.slice(2)}`,
      key.replace(/^(.{68})01/, '$103'),
      key.replace(/^(.{68})01/, '$100')
    ]
  ) {
    t.match(
      (await requestNode(`${url}/v1/accounts/0xcafe/resources?start=${bad}`)).json,
      { ...framework, message: /`start`/ },
      bad
    )
  }
})

t.test('a cursor is parsed type by type, and rejected where a type is invalid', async t => {
  const { url } = await startSandboxNode(t, { blocks: 5, prunedBlocks: 0 })
  const owner = 'cafe'.padStart(64, '0')
  const at = async (args: string) => {
    const path = `01${owner}0467616d6504${Buffer.from('Line').toString('hex')}${args}`
    const size = path.length / 2
    const length = size < 128
      ? size.toString(16).padStart(2, '0')
      : `${((size & 127) | 128).toString(16)}${(size >> 7).toString(16).padStart(2, '0')}`
    return (await requestNode(`${url}/v1/accounts/${owner}/resources?start=00${owner}${length}${path}`)).status
  }
  const nested = (levels: number) => `01${'06'.repeat(levels - 1)}01`
  for (
    const args of ['00', '0100', '010a', '010c', '0111', '020208', nested(2), nested(7), `0107${owner}016101620101`]
  ) t.equal(await at(args), 200, args)
  for (
    const args of [
      '01',
      '010b',
      '0112',
      '02',
      '0000',
      nested(8),
      `0107${owner}01610139`,
      `0107${owner}0161020000`,
      '0106',
      '01ff'
    ]
  ) t.equal(await at(args), 400, args)
})

t.test('a module is the item of the listing as the release renders it; its BCS is the bytecode', async t => {
  const { url, ledger } = await startSandboxNode(t)
  for (const account of ['0x1', '0xcafe']) {
    for (const version of [ledger.oldest.version, ledger.head.version]) {
      for (
        const record of (await requestNode(`${url}/v1/accounts/${account}/modules?ledger_version=${version}`)).json
      ) {
        const path = `${url}/v1/accounts/${account}/module/${record.abi.name}?ledger_version=${version}`
        t.equal((await requestNode(path)).text, JSON.stringify(record))
        t.equal(`0x${(await requestNode(path, { headers: bcs })).body.toString('hex')}`, record.bytecode)
      }
    }
  }
  t.equal((await requestNode(`${url}/v1/accounts/1/module/%2563oin`)).json.abi.name, 'coin')
})

t.test('an account has its next sequence number and key; an unknown address gets the defaults', async t => {
  const { url } = await startSandboxNode(t, { prunedBlocks: 0 })
  const known = await requestNode(`${url}/v1/accounts/0xa11ce`)
  t.same(Object.keys(known.json), ['sequence_number', 'authentication_key'])
  t.match(known.json, { sequence_number: /^\d\d+$/, authentication_key: /^0x[0-9a-f]{64}$/ })
  t.equal((await requestNode(`${url}/v1/accounts/0xa11ce?ledger_version=0`)).json.sequence_number, '0')
  t.same((await requestNode(`${url}/v1/accounts/0xABC`)).json, {
    sequence_number: '0',
    authentication_key: `0x${'abc'.padStart(64, '0')}`
  })
  const { data } = (await requestNode(`${url}/v1/accounts/0xa11ce/resource/0x1::account::Account`)).json
  t.match(data, known.json)
  const bytes = (await requestNode(`${url}/v1/accounts/0xa11ce`, { headers: bcs })).body
  t.same([bytes[0], bytes.toString('hex', 1, 33), `${bytes.readBigUInt64LE(33)}`], [
    32,
    known.json.authentication_key.slice(2),
    known.json.sequence_number
  ])
  t.ok(
    bytes.equals(
      (await requestNode(`${url}/v1/accounts/0xa11ce/resource/0x1::account::Account`, { headers: bcs })).body
    )
  )
  const older = await startSandboxNode(t, { blocks: 5, prunedBlocks: 0, statelessAccounts: false })
  for (const path of ['0x1', '0x1/resources', '0xa/resources']) {
    t.equal((await requestNode(`${older.url}/v1/accounts/${path}`)).status, 200, path)
  }
})

t.test('a balance is a bare number above 2^53, and agrees with the coin store', async t => {
  const { url, ledger } = await startSandboxNode(t, { prunedBlocks: 0 })
  const coin = encodeURIComponent('0x1::aptos_coin::AptosCoin')
  for (const version of [0n, 999n, ledger.head.version]) {
    const balance = await requestNode(`${url}/v1/accounts/0xcafe/balance/${coin}?ledger_version=${version}`)
    t.equal(
      `"${balance.text}"`,
      JSON.stringify(
        (await requestNode(`${url}/v1/accounts/0xcafe/resource/${coins}?ledger_version=${version}`)).json.data.coin
          .value
      )
    )
    t.ok(BigInt(balance.text) > 2n ** 53n)
    t.equal(
      (await requestNode(`${url}/v1/accounts/0xcafe/balance/${coin}?ledger_version=${version}`, { headers: bcs })).body
        .readBigUInt64LE(),
      BigInt(balance.text)
    )
  }
  const events = (await requestNode(`${url}/v1/accounts/0xcafe/events/${coins}/deposit_events?start=0&limit=100`)).json
  let sum = 2n ** 53n + 1n
  for (const event of events) sum += BigInt(event.data.amount)
  t.equal(
    (await requestNode(`${url}/v1/accounts/0xcafe/balance/${coin}?ledger_version=${events.at(-1).version}`)).text,
    `${sum}`
  )
  const [first, last] = [
    await requestNode(`${url}/v1/accounts/0xa11ce/balance/0xa?ledger_version=0`),
    await requestNode(`${url}/v1/accounts/0xa11ce/balance/0xa`)
  ]
  t.equal(first.text, '1000000000000')
  t.ok(last.json < first.json)
})
