import t from 'tap'
import { requestNode } from './request-node.js'
import { startSandboxNode } from '../support/replicas.js'

const coins = '0x1::coin::CoinStore%3C0x1::aptos_coin::AptosCoin%3E'
const coin = encodeURIComponent('0x1::aptos_coin::AptosCoin')

t.test('a stream is the same by handle and by number, byte for byte in both forms', async t => {
  const { url } = await startSandboxNode(t)
  for (
    const [account, handle, number] of [['0x1', '0x1::block::BlockResource/new_block_events', 3], [
      '0x1',
      '0x1::reconfiguration::Configuration/events',
      2
    ], ['0xcafe', `${coins}/deposit_events`, 2]] as const
  ) {
    for (
      const query of [
        '',
        '?start=200&limit=7',
        '?start=150&limit=200',
        '?limit=3',
        '?start=3000',
        '?start=5',
        '?start=5&limit=3'
      ]
    ) {
      for (const headers of [{}, { accept: 'application/x-bcs' }]) {
        const [one, other] = await Promise.all([
          requestNode(`${url}/v1/accounts/${account}/events/${handle}${query}`, { headers }),
          requestNode(`${url}/v1/accounts/${account}/events/${number}${query}`, { headers })
        ])
        t.same([other.status, other.text, other.headers['content-type']], [
          one.status,
          one.text,
          one.headers['content-type']
        ], `${handle}${query}`)
        t.ok(other.headers['x-aptos-chain-id'])
      }
    }
  }
  t.ok((await requestNode(`${url}/v1/accounts/CAFE/events/%252B02`)).json.length === 25)
})

t.test('a handle that was destroyed and recreated names another stream, as of the head', async t => {
  const { url, ledger } = await startSandboxNode(t, { blocks: 300, prunedBlocks: 0 })
  ledger.recreation = { destroyedAt: 310, recreatedAt: 320 }
  const handle = `${url}/v1/accounts/0xcafe/events/${coins}/deposit_events`
  const before = await requestNode(`${handle}?start=0&limit=100`)
  t.equal(before.json.length, 99)
  t.same([...new Set(before.json.map((event: any) => event.guid.creation_number))], ['2'])
  const balance = async () => (await requestNode(`${url}/v1/accounts/0xcafe/balance/${coin}`)).text

  ledger.grow(10)
  t.equal(ledger.height, 309)
  t.equal((await requestNode(`${handle}?start=99&limit=9`)).json.length, 4)
  const balanceBefore = await balance()
  ledger.grow(1)
  const gone = await requestNode(`${handle}?start=0&limit=5`)
  t.match([gone.status, gone.json], [404, { error_code: 'resource_not_found' }])
  t.equal((await requestNode(`${url}/v1/accounts/0xcafe/resource/${coins}`)).status, 404)
  t.equal(
    (await requestNode(`${url}/v1/accounts/0xcafe/resource/${coins}?ledger_version=${ledger.block(309).lastVersion}`))
      .status,
    200
  )
  t.equal(await balance(), balanceBefore, 'the balance moved into a fungible store')
  const byNumber = await requestNode(`${url}/v1/accounts/0xcafe/events/2?start=0&limit=100`)
  t.equal(byNumber.json.length, 100, 'the old stream is still there')

  ledger.grow(9)
  t.equal((await requestNode(handle)).status, 404)
  ledger.grow(1)
  t.equal((await requestNode(handle)).text, '[]', 'recreated, without events yet')
  ledger.grow(40)
  const after = await requestNode(`${handle}?start=0&limit=5`)
  t.same(after.json.map((event: any) => [event.sequence_number, event.guid.creation_number]), [
    ['0', '4'],
    ['1', '4'],
    ['2', '4'],
    ['3', '4'],
    ['4', '4']
  ])
  t.equal((await requestNode(`${url}/v1/accounts/0xcafe/events/4?start=0&limit=5`)).text, after.text)
  t.equal((await requestNode(`${url}/v1/accounts/0xcafe/events/2?start=0&limit=100`)).text, byNumber.text)
  t.equal((await requestNode(`${url}/v1/accounts/0xcafe/events/2`)).json.at(-1).sequence_number, '102')
  const store = (await requestNode(`${url}/v1/accounts/0xcafe/resource/${coins}`)).json.data
  const events = (await requestNode(`${handle}?start=0&limit=100`)).json
  t.match(store, {
    deposit_events: { counter: `${events.length}`, guid: { id: { creation_num: '4' } } },
    withdraw_events: { guid: { id: { creation_num: '5' } } }
  })
  t.equal(store.coin.value, `${events.reduce((sum: bigint, event: any) => sum + BigInt(event.data.amount), 0n)}`)
  t.equal(await balance(), `${BigInt(balanceBefore) + BigInt(store.coin.value)}`)
  t.equal(
    (await requestNode(`${url}/v1/accounts/0xcafe/resource/0x1::account::Account`)).json.data.guid_creation_num,
    '6'
  )
  t.equal(
    (await requestNode(
      `${url}/v1/accounts/0xcafe/resource/0x1::account::Account?ledger_version=${ledger.block(319).lastVersion}`
    )).json.data.guid_creation_num,
    '4'
  )
  for (const { version, ...event } of events) {
    const { events: emitted } = (await requestNode(`${url}/v1/transactions/by_version/${version}`)).json
    t.ok(emitted.some((one: unknown) => JSON.stringify(one) === JSON.stringify(event)))
  }
  t.notOk(
    (await requestNode(`${url}/v1/blocks/by_height/315?with_transactions=true`)).text.includes('DepositEvent'),
    'no deposits without a store'
  )
})

t.test('recreation is a start option too, and the same options give the same chain', async t => {
  const [one, two] = await Promise.all([
    startSandboxNode(t, { blocks: 50, prunedBlocks: 0, recreation: { destroyedAt: 20, recreatedAt: 20 } }),
    startSandboxNode(t, { blocks: 50, prunedBlocks: 0 })
  ])
  const path = `/v1/accounts/0xcafe/events/${coins}/deposit_events?start=0`
  t.equal((await requestNode(one.url + path)).json[0].guid.creation_number, '4')
  two.ledger.recreation = { destroyedAt: 20, recreatedAt: 20 }
  t.equal((await requestNode(two.url + path)).text, (await requestNode(one.url + path)).text)
})

t.test('a POST recreates the coin store from the next block on, once', async t => {
  const { url, ledger } = await startSandboxNode(t, { blocks: 30, prunedBlocks: 0 })
  const state = async () => (await requestNode(`${url}/v1/accounts/0xcafe/resource/${coins}`)).status
  await requestNode(`${url}/sandbox/recreate?blocks=5`, { method: 'POST' })
  await requestNode(`${url}/sandbox/recreate?blocks=2`, { method: 'POST' })
  t.equal(await state(), 200)
  ledger.grow()
  t.equal(await state(), 404)
  await requestNode(`${url}/sandbox/recreate`, { method: 'POST' })
  ledger.grow()
  t.equal(await state(), 404)
  ledger.grow()
  t.equal(await state(), 200)
  t.equal((await requestNode(`${url}/v1/accounts/0xcafe/events/${coins}/deposit_events?start=0`)).text, '[]')
  t.equal((await requestNode(`${url}/sandbox/recreate?blocks=x`, { method: 'POST' })).status, 400)
})
