import t from 'tap'
import { releases } from '#sandbox'
import { requestNode, type NodeResponse, requestTableItem } from '../sandbox/request-node.js'
import { startSandboxNode } from '../support/replicas.js'

const bcs = { accept: 'application/x-bcs' }
const coins = '0x1::coin::CoinStore%3C0x1::aptos_coin::AptosCoin%3E'

t.test('JSON values depend on their type, and BCS encodes the same values', async t => {
  const { url } = await startSandboxNode(t, { startVersion: 2n ** 53n + 1n })
  const value = async (type: string): Promise<[NodeResponse, Buffer]> => {
    const item = { key_type: 'u64', value_type: type, key: '3' }
    const json = await requestTableItem(url, item)
    const binary = await requestTableItem(url, item, '', '0x1', bcs)
    t.equal(json.headers['content-type'], 'application/json; charset=utf-8')
    t.equal(binary.headers['content-type'], 'application/x-bcs')
    return [json, binary.body]
  }
  for (const [type, size] of [['u8', 1], ['u16', 2], ['u32', 4], ['i8', 1], ['i32', 4]] as const) {
    const [json, bytes] = await value(type)
    t.equal(json.json, type.startsWith('i') ? bytes.readIntLE(0, size) : bytes.readUIntLE(0, size), type)
  }
  const [u64, u64Bytes] = await value('u64')
  t.equal(u64.text, `"${u64Bytes.readBigUInt64LE()}"`)
  const [i64, i64Bytes] = await value('i64')
  t.equal(i64.text, `"${i64Bytes.readBigInt64LE()}"`)
  t.match((await value('u256'))[0].text, /^"\d+"$/)
  const [bool, boolByte] = await value('bool')
  t.equal(bool.text, boolByte[0] === 1 ? 'true' : 'false')
  const [address, addressBytes] = await value('address')
  t.equal(BigInt(address.json), BigInt(`0x${addressBytes.toString('hex')}`))
  const [hex, hexBytes] = await value('vector<u8>')
  t.equal(hex.json, `0x${hexBytes.subarray(1).toString('hex')}`)
  const [list, listBytes] = await value('vector<u16>')
  t.equal(list.json.length, listBytes[0])
  const [text, textBytes] = await value('0x1::string::String')
  t.equal(text.json, textBytes.subarray(1).toString())
  const [object, objectBytes] = await value('0x1::object::Object<0x1::a::B>')
  t.equal(BigInt(object.json.inner), BigInt(`0x${objectBytes.toString('hex')}`))
  const [option, optionBytes] = await value('0x1::option::Option<u32>')
  t.equal(option.json.vec.length, optionBytes[0])
  const [cell, cellBytes] = await value('0x42::game::Cell')
  t.same(Object.keys(cell.json), ['owner', 'x', 'y'])
  t.equal(cell.json.x, String(cellBytes.readBigUInt64LE()))
  t.match((await value('0x42::game::Line<vector<bool>>'))[0].json, {
    from: { owner: /^0x/ },
    tag: Array,
    to: { x: /^\d+$/ }
  })
  t.match((await value('0x42::shop::Item'))[0].json, { name: String, price: /^\d+$/, sold: Boolean })
})

t.test('modules come in the order of their state keys, and each page continues the one before', async t => {
  const { url } = await startSandboxNode(t)
  const whole = await requestNode(`${url}/v1/accounts/0x1/modules`)
  t.ok(whole.json.length >= 30)
  t.notOk(whole.headers['x-aptos-cursor'])
  const names: string[] = whole.json.map((record: any) => record.abi.name)
  t.same(names.slice(0, 4), ['acl', 'any', 'bcs', 'code'])
  t.same(names, names.toSorted((a, b) => a.length - b.length || (a < b ? -1 : 1)))
  const walked: unknown[] = []
  let cursor: string | undefined = ''
  while (cursor !== undefined) {
    const page: NodeResponse = await requestNode(
      `${url}/v1/accounts/0x1/modules?limit=7${cursor && `&start=${cursor.toUpperCase()}`}`
    )
    walked.push(...page.json)
    cursor = page.headers['x-aptos-cursor'] as string | undefined
    if (cursor !== undefined) {
      t.same(page.names.slice(-4), ['x-aptos-txn-encryption-key', 'x-aptos-cursor', 'content-length', 'date'])
    }
  }
  t.same(walked, whole.json)
  const key = `00${'1'.padStart(64, '0')}2a00${'1'.padStart(64, '0')}08${Buffer.from('pool_u64').toString('hex')}`
  t.equal((await requestNode(`${url}/v1/accounts/0x1/modules?start=${key}&limit=1`)).json[0].abi.name, 'pool_u64')
  t.equal(
    (await requestNode(`${url}/v1/accounts/0x1/modules?limit=${names.length}`)).headers['x-aptos-cursor'],
    undefined
  )
})

t.test('the release renders the interface; bytecode and BCS do not change with it', async t => {
  const { url, ledger } = await startSandboxNode(t)
  const seen = new Map<string, { json: any, bytes: Buffer }>()
  for (const release of [...Object.values(releases), 'a'.repeat(40)]) {
    ledger.release = release
    seen.set(release, {
      json: (await requestNode(`${url}/v1/accounts/0x1/modules`)).json,
      bytes: (await requestNode(`${url}/v1/accounts/0x1/modules`, { headers: bcs })).body
    })
  }
  const structs = (release: string): any[] => seen.get(release)?.json.flatMap((record: any) => record.abi.structs)
  t.ok(structs(releases.events).every(struct => !('is_enum' in struct) && !('variants' in struct)))
  t.ok(structs(releases.enums).every(struct => 'is_enum' in struct && !('variants' in struct)))
  t.ok(structs(releases.variants).every(struct => 'is_enum' in struct && 'variants' in struct))
  const [one, ...others] = [...seen.values()]
  for (const other of others) {
    t.ok(other.bytes.equals(one?.bytes ?? Buffer.alloc(0)))
    t.same(other.json.map((record: any) => record.bytecode), one?.json.map((record: any) => record.bytecode))
  }
  const bytes = one?.bytes ?? Buffer.alloc(0)
  t.equal(bytes[0], one?.json.length)
  t.equal(bytes.toString('latin1', 34, 41), 'account')
})

t.test('events come one per block in rising order, the last ones by default', async t => {
  const { url, ledger } = await startSandboxNode(t, { blocks: 600 })
  const path = `${url}/v1/accounts/0x1/events/0x1::block::BlockResource/new_block_events`
  const latest = await requestNode(path)
  t.equal(latest.json.length, 25)
  t.same(
    latest.json.map((event: any) => event.sequence_number),
    Array.from({ length: 25 }, (_, index) => String(575 + index))
  )
  t.equal((await requestNode(`${path}?limit=1000`)).json.length, 100)
  const [event] = (await requestNode(`${path}?start=0450&limit=1`)).json
  const block = ledger.block(450)
  t.same(Object.keys(event), ['version', 'guid', 'sequence_number', 'type', 'data'])
  t.match(event, {
    version: `${block.firstVersion}`,
    guid: { creation_number: '3', account_address: '0x1' },
    sequence_number: '450',
    type: '0x1::block::NewBlockEvent',
    data: { height: '450', hash: block.hash, time_microseconds: `${block.timestampUsec}` }
  })
  t.equal((await requestNode(`${path}?start=598&limit=5`)).json.length, 2)
  const binary = await requestNode(`${path}?start=450&limit=2`, { headers: bcs })
  t.equal(binary.body[0], 2)
  t.equal(binary.body.readBigUInt64LE(1), block.firstVersion)
})

t.test('pruned events give each of the responses that nodes give', async t => {
  const { url, ledger } = await startSandboxNode(t)
  const at = async (start: number, field = '0x1/events/0x1::block::BlockResource/new_block_events') =>
    await requestNode(`${url}/v1/accounts/${field}?start=${start}&limit=20`)
  const rejected = await at(95)
  t.equal(rejected.status, 500)
  t.match(rejected.json, {
    error_code: 'internal_error',
    message: 'First requested event is probably pruned. expected: 95, actual: 100'
  })
  t.ok(rejected.headers['x-aptos-chain-id'])
  ledger.prunedEvents = 'gone410'
  t.match(await at(95), { status: 410, json: { error_code: 'version_pruned' } })
  ledger.prunedEvents = 'empty'
  t.equal((await at(95)).text, '[]')
  ledger.prunedEvents = 'gaps'
  t.equal((await at(95)).json[0].sequence_number, '100')
  t.equal((await at(95)).json.length, 15)
  t.equal((await at(5)).text, '[]')
  ledger.prunedEvents = 'served'
  t.equal((await at(95)).json.length, 20)
  t.equal((await at(100)).json.length, 20)
  ledger.prunedEvents = 'error500'
  ledger.pruneTo(999)
  t.equal((await at(5, `0xcafe/events/${coins}/deposit_events`)).json?.error_code, 'internal_error')
  ledger.grow()
  ledger.pruneTo(1_000)
  t.equal((await at(5, `0xcafe/events/${coins}/deposit_events`)).text, '[]')
})

t.test('a block begins with its metadata and ends with a checkpoint or an epilogue', async t => {
  const { url, ledger } = await startSandboxNode(t, { blocks: 60, prunedBlocks: 0 })
  for (let height = 0; height < 30; height++) {
    const { firstVersion, lastVersion } = ledger.block(height)
    const { transactions } =
      (await requestNode(`${url}/v1/blocks/by_version/${firstVersion}?with_transactions=true`)).json
    t.same(
      transactions.map((each: any) => each.version),
      Array.from({ length: Number(lastVersion - firstVersion) + 1 }, (_, index) => `${firstVersion + BigInt(index)}`)
    )
    t.equal(transactions[0].type, height === 0 ? 'genesis_transaction' : 'block_metadata_transaction')
    if (transactions.length > 1) {
      t.equal(
        transactions.at(-1).type,
        height % 2 === 0 ? 'state_checkpoint_transaction' : 'block_epilogue_transaction'
      )
    }
    t.ok(transactions.every((transaction: object) => Object.keys(transaction).at(-1) === 'type'))
  }
  t.match((await requestNode(`${url}/v1/blocks/by_version/0`)).json, {
    block_height: '0',
    block_hash: /^0x0{64}$/,
    block_timestamp: '0',
    first_version: '0',
    last_version: '0'
  })
})

t.test('the transactions of a huge block are truncated at the maximum without notice', async t => {
  const { url, ledger } = await startSandboxNode(t)
  const block = ledger.block(500)
  const huge = await requestNode(`${url}/v1/blocks/by_version/${block.lastVersion}?with_transactions=true`)
  t.equal(huge.json.transactions.length, 10_000)
  t.equal(huge.json.last_version, `${block.lastVersion}`)
  t.equal(huge.json.transactions.at(-1).version, `${block.firstVersion + 9_999n}`)
})

t.test('a block in BCS has its head at fixed offsets and its transactions marked in two ways', async t => {
  const { url, ledger } = await startSandboxNode(t)
  const block = ledger.block(501)
  const read = async (flag: boolean) =>
    (await requestNode(`${url}/v1/blocks/by_version/${block.firstVersion}?with_transactions=${flag}`, { headers: bcs }))
      .body
  const [bare, full] = [await read(false), await read(true)]
  t.equal(bare.length, 65)
  t.same([
    bare.readBigUInt64LE(0),
    `0x${bare.toString('hex', 8, 40)}`,
    bare.readBigUInt64LE(40),
    bare.readBigUInt64LE(48),
    bare.readBigUInt64LE(56),
    bare[64]
  ], [501n, block.hash, block.timestampUsec, block.firstVersion, block.lastVersion, 0])
  const size = Number(block.lastVersion - block.firstVersion) + 1
  let length = 66
  for (let version = block.firstVersion; version <= block.lastVersion; version++) {
    // One transaction alone has a variant byte in front.
    length += (await requestNode(`${url}/v1/transactions/by_version/${version}`, { headers: bcs })).body.length - 1
  }
  t.same([full[64], full[65], full.length], [1, size, length])
  ledger.blockBcs = 'bare'
  t.equal((await read(false)).length, 64)
  t.equal((await read(true))[64], size)
  const huge =
    (await requestNode(`${url}/v1/blocks/by_version/${ledger.block(500).firstVersion}?with_transactions=true`, {
      headers: bcs
    })).body
  t.equal(huge.toString('hex', 64, 66), '904e')
})

t.test('a block by height is the same block as by its versions, in every form', async t => {
  const { url, ledger } = await startSandboxNode(t, { prunedBlocks: 0 })
  for (const height of [0, 1, 452, 999]) {
    for (const query of ['', '?with_transactions=true', '?with_transactions=false']) {
      for (const headers of [{}, bcs]) {
        const [found, known] = [
          await requestNode(`${url}/v1/blocks/by_height/${height}${query}`, { headers }),
          await requestNode(`${url}/v1/blocks/by_version/${ledger.block(height).lastVersion}${query}`, { headers })
        ]
        t.same([found.status, found.text, found.headers['content-type']], [
          200,
          known.text,
          known.headers['content-type']
        ], `${height}${query}`)
        t.equal(found.headers['x-aptos-block-height'], '999')
      }
    }
  }
})
