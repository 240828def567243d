// Serves a growing model ledger in the form of a full node. Runs as its own process: RATE KEYS SEED as arguments.
import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import {
  addressDigits,
  groupKey,
  itemKey,
  objectGroup,
  primaryStoreOf,
  resourceKey,
  stateKeyHash,
  structTagOf
} from '../../dist/api/state-key.js'
import { addressOf, firstVersion, LedgerModel, tableHandle } from './ledger-model.js'

const [rate = 60, keys = 1000, seed = 1] = process.argv.slice(2).map(Number)
const blocksPerSecond = 10
const versionsAtStart = 500
const payloadBytes = 1500
const json = 'application/json; charset=utf-8'
const nativeAsset = addressDigits('0xa')
const score = structTagOf('0x42::game::Score')
const model = new LedgerModel({ keys, seed })
const roots = []
const heads = []
const counts = { read: 0, tail: 0, own: 0, bytes: 0 }
const hashes = new Map()
const printed = new Map()
const sha = text => createHash('sha256').update(text).digest('hex')
const filler = Array.from({ length: payloadBytes / 64 }, (_, at) => sha(String(at))).join('')

grow(firstVersion + versionsAtStart)
let owed = 0
setInterval(() => {
  owed += rate / blocksPerSecond
  grow(model.head + Math.floor(owed))
  owed %= 1
}, 1000 / blocksPerSecond)

const routes = [
  [/^\/v1\/transactions\?(?:start=(\d+)&)?limit=(\d+)$/, 'tail', transactionsOf],
  [
    /^\/v1\/accounts\/0x([0-9a-f]+)\/balance\/[^?]+(?:\?ledger_version=(\d+))?$/,
    'read',
    (address, version) => String(valueOf(keyOf(address), version))
  ],
  [
    /^\/v1\/accounts\/0x([0-9a-f]+)\/resource\/[^?]+(?:\?ledger_version=(\d+))?$/,
    'read',
    (address, version) =>
      JSON.stringify({ type: '0x42::game::Score', data: { value: String(valueOf(keyOf(address), version)) } })
  ],
  [/^\/v1\/?$/, 'own', indexOf],
  [/^\/v1\/blocks\/by_height\/(\d+)/, 'own', blockOf],
  [/^\/v1\/estimate_gas_price$/, 'own', () => '{"gas_estimate":100}']
]
const item = /^\/v1\/tables\/[^/]+\/item(?:\?ledger_version=(\d+))?$/

const server = createServer({ keepAliveTimeout: 0 }, (request, response) => {
  const { url } = request
  if (url === '/bench') return send(response, 200, JSON.stringify({ counts, heads }))
  const ofItem = item.exec(url)
  if (ofItem !== null) {
    const chunks = []
    request.on('data', chunk => chunks.push(chunk)).on('end', () => {
      counts.read++
      const key = Number(JSON.parse(Buffer.concat(chunks)).key)
      send(response, 200, JSON.stringify(String(valueOf(key, ofItem[1]))))
    })
    return
  }
  for (const [pattern, kind, answer] of routes) {
    const found = pattern.exec(url)
    if (found === null) continue
    counts[kind]++
    const body = answer(...found.slice(1))
    return body === undefined ? send(response, 400, errorOf('invalid_input')) : send(response, 200, body)
  }
  send(response, 404, errorOf('web_framework_error'))
})
server.listen(0, '127.0.0.1', 4096, () => {
  console.log(`ledger on http://127.0.0.1:${server.address().port}`)
})

function grow (version) {
  const from = model.head + 1
  model.growTo(version)
  for (let at = from; at <= model.head; at++) roots.push(sha(`${roots.at(-1)} ${at}`))
  heads.push({ atMs: performance.timeOrigin + performance.now(), version: model.head })
}

function keyOf (address) {
  return Number.parseInt(address, 16) - Number.parseInt(addressOf(0).slice(2), 16)
}

function valueOf (key, version) {
  return model.lastTouch(key, version === undefined ? model.head : Number(version))
}

function transactionsOf (start, limit) {
  const from = start === undefined ? model.head : Number(start)
  if (from > model.head || from < firstVersion) return undefined
  const count = Math.min(Number(limit), 100, model.head - from + 1)
  return `[${Array.from({ length: count }, (_, at) => transactionOf(from + at)).join()}]`
}

function transactionOf (version) {
  const known = printed.get(version)
  if (known !== undefined) return known
  const text = JSON.stringify({
    type: 'user_transaction',
    version: String(version),
    hash: `0x${sha(`hash ${version}`)}`,
    state_change_hash: `0x${sha(`changes ${version}`)}`,
    event_root_hash: `0x${sha(`events ${version}`)}`,
    accumulator_root_hash: `0x${roots[version - firstVersion]}`,
    success: true,
    payload: `0x${filler}`,
    changes: model.writtenAt(version).map(key => changeOf(key, version))
  })
  printed.set(version, text)
  // Only the tail is read.
  printed.delete(version - 1000)
  return text
}

function changeOf (key, version) {
  const [address, value] = [addressOf(key), String(version)]
  switch (key % 3) {
    case 0: {
      const store = primaryStoreOf(addressDigits(address), nativeAsset)
      const data = { type: '0x1::fungible_asset::FungibleStore', data: { balance: value } }
      return { address: `0x${store}`, state_key_hash: hashOf(key), data, type: 'write_resource' }
    }
    case 1: {
      const data = { type: '0x42::game::Score', data: { value } }
      return { address, state_key_hash: hashOf(key), data, type: 'write_resource' }
    }
    default:
      return {
        state_key_hash: hashOf(key),
        handle: tableHandle,
        key: `0x${u64(key).toString('hex')}`,
        value: `0x${u64(version).toString('hex')}`,
        data: null,
        type: 'write_table_item'
      }
  }
}

function hashOf (key) {
  const known = hashes.get(key)
  if (known !== undefined) return known
  const address = addressDigits(addressOf(key))
  const stateKey = key % 3 === 0
    ? groupKey(primaryStoreOf(address, nativeAsset), objectGroup)
    : key % 3 === 1
    ? resourceKey(address, score)
    : itemKey(tableHandle.slice(2), u64(key))
  const hash = `0x${stateKeyHash(stateKey)}`
  hashes.set(key, hash)
  return hash
}

function u64 (value) {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt(value))
  return bytes
}

function blockOf (height) {
  const first = firstVersion + Number(height)
  return JSON.stringify({
    block_height: height,
    block_hash: `0x${sha(`block ${height}`)}`,
    block_timestamp: String(timeOf(first)),
    first_version: String(first),
    last_version: String(first),
    transactions: null
  })
}

function indexOf () {
  return JSON.stringify({
    chain_id: 4,
    epoch: '1',
    ledger_version: String(model.head),
    oldest_ledger_version: String(firstVersion),
    ledger_timestamp: String(timeOf(model.head)),
    node_role: 'full_node',
    oldest_block_height: '0',
    block_height: String(model.head - firstVersion),
    git_hash: '8f1de1d76c0ed7ac7d1e1b2a1c7ee9e9a0c0ffee',
    encryption_key: null
  })
}

function timeOf (version) {
  return 1_747_000_000_000_000 + version * 1000
}

function errorOf (code) {
  return JSON.stringify({ message: code, error_code: code, vm_error_code: null })
}

function send (response, status, body) {
  const length = Buffer.byteLength(body)
  counts.bytes += length
  response.writeHead(status, [
    'content-type',
    json,
    'x-aptos-chain-id',
    '4',
    'x-aptos-ledger-version',
    String(model.head),
    'x-aptos-ledger-oldest-version',
    String(firstVersion),
    'x-aptos-ledger-timestampusec',
    String(timeOf(model.head)),
    'x-aptos-epoch',
    '1',
    'x-aptos-block-height',
    String(model.head - firstVersion),
    'x-aptos-oldest-block-height',
    '0',
    'content-length',
    String(length)
  ])
  response.end(body)
}
