// Builds the reads of the trace: a unique name for each, and a function that writes it as a given client does.
import { targetOf } from './request-variants.js'

const jsonBody = { 'content-type': 'application/json' }
const tableKeys = [
  ...Array.from({ length: 40 }, (_, at) => ['u64', String(at), 'u64']),
  ['0x1::string::String', 'alice', 'u64'],
  ['0x1::string::String', 'bob', '0x1::string::String'],
  // Only some of these keys exist on the full node.
  ...Array.from({ length: 60 }, (_, at) => ['0x42::game::Cell', { x: String(at), y: '2', owner: '0x1' }, 'u64']),
  ...Array.from({ length: 30 }, (_, at) => ['address', plainAddress(at), 'u64'])
]
const streams = [
  { digits: '1', tag: at => `${at('1')}::block::BlockResource`, field: 'new_block_events', first: 120, last: 950 },
  {
    digits: 'cafe',
    tag: at => `${at('1')}::coin::CoinStore<${at('1')}::aptos_coin::AptosCoin>`,
    field: 'deposit_events',
    first: 45,
    last: 290
  }
]

/** Builds a read of a modules page at a version. */
export function modulesRead (draw, versions) {
  const digits = ['1', '1', '42', 'cafe'][Math.floor(draw() * 4)]
  const [version, limit] = [within(draw, versions), 1 + Math.floor(draw() * 4)]
  return {
    name: `modules ${digits} ${version} ${limit}`,
    spell: client => ({
      path: targetOf(client, `/v1/accounts/${client.address(digits)}/modules`, [[
        'ledger_version',
        client.number(version)
      ], ['limit', client.number(limit)]])
    })
  }
}

/** Builds a read of a block by any of its versions. */
export function blockRead (draw, blocks) {
  const { height, first, last } = blocks[Math.floor(draw() * blocks.length)]
  const isFull = draw() < 0.25
  return {
    name: `block ${height} ${isFull}`,
    spell (client, draw) {
      const version = client.number(within(draw, { first, last }))
      const path = `/v1/blocks/by_version/${version}`
      return {
        path: isFull ? `${path}?with_transactions=true` : targetOf(client, path, [], [['with_transactions', 'false']])
      }
    }
  }
}

/** Builds a read of a table item at a version, sent as POST. */
export function tableRead (draw, versions) {
  const [keyType, key, valueType] = tableKeys[Math.floor(draw() * tableKeys.length)]
  const [digits, version] = [['5eed', 'abc1', 'beef'][Math.floor(draw() * 3)], within(draw, versions)]
  return {
    name: `item ${digits} ${keyType} ${JSON.stringify(key)} ${valueType} ${version}`,
    spell: client => ({
      method: 'POST',
      path: targetOf(client, `/v1/tables/${client.address(digits)}/item`, [['ledger_version', client.number(version)]]),
      headers: jsonBody,
      body: client.body([['key_type', keyType], ['value_type', valueType], ['key', key]])
    })
  }
}

/** Builds a read of a full event page with an explicit start. */
export function eventsRead (draw) {
  const { digits, tag, field, ...starts } = streams[Math.floor(draw() * streams.length)]
  const [start, limit] = [within(draw, starts), draw() < 0.5 ? 25 : 10]
  return {
    name: `events ${field} ${start} ${limit}`,
    spell (client) {
      const path = `/v1/accounts/${client.address(digits)}/events/${client.encode(tag(client.addressInTag))}/${field}`
      const ofLimit = [['limit', client.number(limit)]]
      return {
        path: targetOf(
          client,
          path,
          [['start', client.number(start)], ...(limit === 25 ? [] : ofLimit)],
          limit === 25 ? ofLimit : []
        )
      }
    }
  }
}

function within (draw, { first, last }) {
  return first + Math.floor(draw() * (last - first + 1))
}

function plainAddress (at) {
  return `0x${(4096 + at * 17).toString(16)}`
}
