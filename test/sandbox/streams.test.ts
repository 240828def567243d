import t from 'tap'
import { requestNode } from './request-node.js'
import { startSandboxNode } from '../support/replicas.js'

const coins = '0x1::coin::CoinStore%3C0x1::aptos_coin::AptosCoin%3E'

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

t.test('a stream has the events that transactions list, and the state counts them', async t => {
  const { url } = await startSandboxNode(t, { blocks: 200, prunedBlocks: 0 })
  const read = async (path: string) => (await requestNode(`${url}/v1/${path}`)).json
  const events = await read(`accounts/0xcafe/events/${coins}/deposit_events?start=0&limit=100`)
  const { data: store } = await read(`accounts/0xcafe/resource/${coins}`)
  const { data: first } = await read(`accounts/0xcafe/resource/${coins}?ledger_version=0`)
  t.match(store.deposit_events, { counter: String(events.length), guid: { id: { creation_num: '2' } } })
  const sum = events.reduce((total: bigint, { data }: any) => total + BigInt(data.amount), BigInt(first.coin.value))
  t.equal(store.coin.value, String(sum))
  for (const { version, ...event } of events) {
    const { events: emitted } = await read(`transactions/by_version/${version}`)
    t.ok(emitted.some((one: unknown) => JSON.stringify(one) === JSON.stringify(event)))
  }
})
