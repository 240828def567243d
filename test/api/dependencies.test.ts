import fc from 'fast-check'
import t from 'tap'
import { type Dependency, ofResource } from '../../src/api/dependencies.js'
import { endpoints } from '../../src/api/endpoints.js'
import { matchEndpoint, readRequest } from '../../src/api/read-request.js'
import { type Read } from '../../src/api/read.js'
import { addressDigits, publishedCode } from '../../src/api/state-key.js'
import { readTouchedKeys, type TransactionDigest } from '../../src/follow/transaction-digest.js'
import { Ledger } from '../../sandbox/ledger.js'
import { defaultSettings } from '../../sandbox/options.js'
import { dispatch } from '../../sandbox/serve-request.js'
import { groupKey, itemKey, moduleKey, resourceKey, stateKeyBytes, stateKeyHash } from '../../sandbox/state-key.js'
import { transactionRecord } from '../../sandbox/transactions.js'
import { trustedStructTag } from '../../sandbox/type-tag.js'
import { check, seedTitle } from '../support/properties.js'

// Covers two epochs and every kind of change; ends before the large blocks.
const ledger = new Ledger({ ...defaultSettings, blocks: 420, prunedBlocks: 0 })
const lastVersion = Number(ledger.head.version)
const digests = await Promise.all(
  Array.from({ length: lastVersion + 1 }, async (_, version) => await digestOfVersion(BigInt(version)))
)
const position = ledger.position()
const [json, bcs] = ['application/json', 'application/x-bcs']

interface Request {
  readonly target: string
  readonly accept: string
  readonly body: string
  readonly read: Read
  readonly dependencies: readonly Dependency[]
}

/** Scans a transaction as the tail of the ledger is scanned. */
async function digestOfVersion (version: bigint): Promise<TransactionDigest> {
  const record = JSON.stringify(transactionRecord(ledger, ledger.blockOf(version), version))
  const [digest] = await readTouchedKeys(Buffer.from(`[${record}]`)) ?? []
  if (digest === undefined) throw new Error(`unreadable transaction ${version}`)
  return digest
}

function requestOf (target: string, accept: string, body = ''): Request {
  const method = body === '' ? 'GET' : 'POST'
  const match = matchEndpoint(target, method)
  if (match === undefined) throw new Error(`no read at ${target}`)
  const contentType = body === '' ? undefined : json
  const read = readRequest(match, { method, accept, contentType, body: Buffer.from(body) })
  const { dependsOn, name } = read.endpoint
  const dependencies = dependsOn?.(read)
  if (dependencies === undefined) throw new Error(`${name} is not followed`)
  return { target, accept, body, read, dependencies }
}

/** Status, cursor and body of a read at a version, without the version that not-founds quote. */
function answer ({ target, accept, body }: Request, version: number): string {
  const bytes = Buffer.from(body)
  const { status, headers, body: got } = dispatch(
    {
      method: body === '' ? 'GET' : 'POST',
      rawTarget: `${target}${target.includes('?') ? '&' : '?'}ledger_version=${version}`,
      contentLength: String(bytes.length),
      contentType: json,
      accept,
      body: bytes,
      requestIndex: 0
    },
    { ledger, position },
    defaultSettings
  )
  const cursor = JSON.stringify(Object.entries(headers).filter(([name]) => name.endsWith('cursor')))
  return `${status} ${cursor} ${got.toString('latin1').replace(/Ledger version\(\d+\)/, '')}`
}

/** Returns true unless the answer changes at a version whose transaction touches none of some dependencies. */
function isExplained (
  request: Request,
  version: number,
  dependencies: readonly Dependency[] = request.dependencies
): boolean {
  const digest = digests[version]
  if (digest?.touchesAll !== undefined || dependencies.some(each => digest?.touched.includes(each.digest))) return true
  return answer(request, version) === answer(request, version - 1)
}

const both = (target: string): Request[] => [requestOf(target, json), requestOf(target, bcs)]
const coin = '0x1::aptos_coin::AptosCoin'
const addresses = ['0x1', '0x42', '0xcafe', '0xa11ce', '0xdead', '0x70ce', '0xa', '0xfeed', '0xabc']
const types = [
  ...['Piece', 'Rank', 'Turn', 'Token', 'Badge', 'Line<u8>', 'Cell'].map(name => `0x42::game::${name}`),
  '0x1::account::Account',
  `0x1::coin::CoinStore<${coin}>`,
  `0x1::coin::CoinInfo<${coin}>`,
  '0x1::fungible_asset::FungibleStore',
  '0x1::fungible_asset::ConcurrentSupply',
  '0x1::object::ObjectCore',
  '0x1::block::BlockResource',
  '0x1::timestamp::CurrentTimeMicroseconds'
]
const itemKeys: Array<[type: string, key: unknown]> = [
  ...[0, 1, 2, 6, 7, 8, 11, 100, 101, 110].map((key): [string, unknown] => ['u64', String(key)]),
  ['u8', 3],
  ['u128', '7'],
  ['bool', true],
  ['address', '0xcafe'],
  ['vector<u8>', '0xab'],
  ['vector<u64>', ['1', '2']],
  ['0x1::string::String', 'Alice'],
  ['0x1::string::String', 'alice'],
  ['0x42::game::Cell', { x: '1', y: '2', owner: '0x1' }],
  ['0x1::option::Option<u8>', { vec: '0x01' }]
]
const valueTypes = ['u64', '0x42::shop::Item', 'address']
const handles = ['0x5eed', '0x42', '0xb00c']

const itemRequest = (handle: string, type: string, key: unknown, valueType: string, accept: string): Request =>
  requestOf(`/v1/tables/${handle}/item`, accept, JSON.stringify({ key_type: type, value_type: valueType, key }))
const rawKey = (key: number): string => {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt(key))
  return `0x${bytes.toString('hex')}`
}

const stateValueRequest = (key: Buffer): Request =>
  requestOf('/v1/experimental/state_values/raw', bcs, JSON.stringify({ key: key.toString('hex') }))

/** Requests that can be followed, by endpoint. */
const requests: Readonly<Record<string, readonly Request[]>> = {
  table_item: handles.flatMap(handle =>
    itemKeys.flatMap(([type, key]) =>
      valueTypes.flatMap(value => [json, bcs].map(accept => itemRequest(handle, type, key, value, accept)))
    )
  ),
  raw_table_item: handles.flatMap(handle =>
    [0, 1, 2, 6, 7, 8, 11, 100, 101, 110].map(key =>
      requestOf(`/v1/tables/${handle}/raw_item`, bcs, JSON.stringify({ key: rawKey(key) }))
    )
  ),
  raw_state_value: [
    ...addresses.flatMap(address => [
      groupKey(addressDigits(address), trustedStructTag('0x1::object::ObjectGroup')),
      ...types.map(type => resourceKey(addressDigits(address), trustedStructTag(type)))
    ]),
    ...['menu', 'till', 'seasonal'].map(name => moduleKey(addressDigits('0x42'), name)),
    ...[7, 8, 100, 110].map(key => itemKey(addressDigits('0x5eed'), Buffer.from(rawKey(key).slice(2), 'hex')))
  ].map(key => stateValueRequest(stateKeyBytes(key))),
  account: addresses.flatMap(address => both(`/v1/accounts/${address}`)),
  account_resources: addresses.flatMap(address =>
    ['', '?limit=1', '?limit=3'].flatMap(page => both(`/v1/accounts/${address}/resources${page}`))
  ),
  account_resource: addresses.flatMap(address =>
    types.flatMap(type => both(`/v1/accounts/${address}/resource/${encodeURIComponent(type)}`))
  ),
  account_balance: addresses.flatMap(address =>
    [coin, '0xa', '0x42::game::Coin'].flatMap(asset => both(`/v1/accounts/${address}/balance/${asset}`))
  ),
  account_modules: addresses.flatMap(address =>
    ['', '?limit=1', '?limit=2'].flatMap(page => both(`/v1/accounts/${address}/modules${page}`))
  ),
  account_module: ['menu', 'till', 'seasonal', 'oracle', 'coin', 'game'].flatMap(name =>
    addresses.flatMap(address => both(`/v1/accounts/${address}/module/${name}`))
  )
}

/** Versions whose transactions touch a dependency and are no change of everything. */
function touchedVersions ({ dependencies }: Request): number[] {
  return digests.flatMap(({ touched, touchesAll }, version) =>
    version > 0 && touchesAll === undefined && dependencies.some(({ digest }) => touched.includes(digest))
      ? version
      : []
  )
}

/** Names the part of a dependency's name that its read does not decide. */
function kindOf ({ name }: Dependency): string {
  return name.startsWith('all ') ? name.split(' ').slice(0, 2).join(' ') : String(name.split(' ')[0])
}

t.test('every endpoint with dependencies has requests here', async t => {
  t.same(
    Object.keys(requests).sort(),
    endpoints.flatMap(({ name, dependsOn }) => dependsOn === undefined ? [] : [name]).sort()
  )
})

const namesOf = ({ dependencies }: Request): string[] => dependencies.map(({ name }) => name)
const full = (digits: string): string => `0x${digits.padStart(64, '0')}`
const resourceRequest = (type: string): Request =>
  requestOf(`/v1/accounts/0x42/resource/${encodeURIComponent(type)}`, bcs)

t.test('JSON that needs layouts depends on all code; BCS, balances, accounts and modules do not', async t => {
  const code = 'all published code'
  const dependsOnCode = (request: Request): boolean => namesOf(request).includes(code)
  for (const target of ['/v1/accounts/0x1/resources', `/v1/accounts/0x1/resource/${types[0]}`]) {
    t.same(both(target).map(dependsOnCode), [true, false], target)
  }
  for (const target of ['/v1/accounts/0x1', '/v1/accounts/0x1/balance/0xa', '/v1/accounts/0x1/modules']) {
    t.same(both(target).map(dependsOnCode), [false, false], target)
  }
  const item = (value: string, accept: string): boolean => dependsOnCode(itemRequest('0x42', 'u64', '1', value, accept))
  t.same(['u64', '0x1::string::String', '0x42::shop::Item'].map(type => item(type, json)), [false, false, true])
  t.equal(item('0x42::shop::Item', bcs), false)
  t.ok(both('/v1/accounts/0x1/resources')[0]?.dependencies.some(({ digest }) => digest === publishedCode))
})

t.test('a coin store also depends on the store and the asset that the coin is paired with', async t => {
  const store = namesOf(resourceRequest(`0x1::coin::CoinStore<${coin}>`))
  t.equal(store.filter(name => name.startsWith('object at')).length, 2)
  const [balance = ''] = namesOf(requestOf('/v1/accounts/0x42/balance/0xa', bcs))
  t.ok(store.includes(balance))
  t.notOk(namesOf(resourceRequest(`0x42::coin::CoinStore<${coin}>`)).includes(balance))
})

t.test('a state value depends on its key alone, by the hash that write sets have', async t => {
  const [path, item] = [
    moduleKey(addressDigits('0x42'), 'menu'),
    itemKey(addressDigits('0x5eed'), Buffer.from('0ab7', 'hex'))
  ]
  for (const key of [path, item]) {
    t.same(namesOf(stateValueRequest(stateKeyBytes(key))), [`state key of hash ${stateKeyHash(key)}`])
  }
  t.not(stateKeyBytes(item).equals(item), 'the length in BCS is not hashed')
  t.throws(() => stateValueRequest(Buffer.from('0202abcd', 'hex')), /not followed/, 'no list has a raw key')
})

t.test('what cannot be keyed depends on the whole table or account', async t => {
  const deep = (levels: number): string => 'vector<'.repeat(levels) + 'u8' + '>'.repeat(levels)
  const long = 'x'.repeat(5000)
  t.same(namesOf(itemRequest('0x42', '0x1::string::String', long, 'u8', bcs)), [`all items of ${full('42')}`])
  t.same(namesOf(itemRequest('0x42', '0x1::string::String', long, 'u8', json)), [
    `all items of ${full('42')}`,
    'all published code',
    `resource 0x1::features::Features at ${full('1')}`
  ])
  const raw = JSON.stringify({ key: `0x${'00'.repeat(3000)}` })
  t.same(namesOf(requestOf('/v1/tables/0x42/raw_item', bcs, raw)), [`all items of ${full('42')}`])
  t.same(namesOf(resourceRequest('0x1::a::B<T0>'))[0], `all resources of ${full('42')}`)
  // A type that no parser lets through has no key either.
  const odd = ofResource({ path: '/v1/accounts/0x42/resource/u8', accept: 'bcs', body: undefined })
  t.same(odd.map(({ name }) => name), [`all resources of ${full('42')}`])
  t.match(namesOf(requestOf(`/v1/accounts/0x42/balance/${encodeURIComponent(`0x1::a::B<${deep(6)}>`)}`, bcs)), [
    `all resources of ${full('42')}`,
    /^object at/
  ])
})

for (const [name, candidates] of Object.entries(requests)) {
  t.test(`${name}: a response changes only where a dependency is touched (${seedTitle})`, async t => {
    const versions = fc.integer({ min: 1, max: lastVersion })
    const drawn = fc.constantFrom(...candidates).chain(request => {
      const touched = touchedVersions(request)
      return fc.tuple(
        fc.constant(request),
        touched.length === 0 ? versions : fc.oneof(versions, fc.constantFrom(...touched))
      )
    })
    check(fc.property(drawn, ([request, version]) => isExplained(request, version)), 150)
    t.pass()
  })
}

// Features and published code are changes of everything or change no rendering of the sandbox.
const necessary: Readonly<Record<string, readonly string[]>> = {
  table_item: ['all items', 'item'],
  raw_table_item: ['item'],
  raw_state_value: ['state'],
  account: ['resource'],
  account_resources: ['all resources'],
  account_resource: ['all groups', 'resource'],
  account_balance: ['object', 'resource'],
  account_modules: ['all modules'],
  account_module: ['module']
}

/** Returns some versions at which a response changes, from the ends of equal parts of the chain. */
function changesOf (request: Request): number[] {
  const parts = 12
  const ends = Array.from({ length: parts + 1 }, (_, part) => Math.floor(lastVersion * part / parts))
  const answers = ends.map(version => answer(request, version))
  return answers.flatMap((last, part) => {
    const [first, from, to] = [answers[part - 1], ends[part - 1], ends[part]]
    return first === undefined || from === undefined || to === undefined || first === last
      ? []
      : changeBetween(request, { version: from, text: first }, to)
  })
}

function changeBetween (request: Request, from: { version: number, text: string }, to: number): number {
  if (to - from.version === 1) return to
  const version = Math.floor((from.version + to) / 2)
  const text = answer(request, version)
  return text === from.text ? changeBetween(request, { version, text }, to) : changeBetween(request, from, version)
}

for (const [name, candidates] of Object.entries(requests)) {
  t.test(`${name}: without one of its dependencies a change of its response is missed`, async t => {
    const wanted = new Set(necessary[name])
    for (const request of candidates) {
      if (!request.dependencies.some(each => wanted.has(kindOf(each)))) continue
      for (const version of changesOf(request)) {
        t.ok(isExplained(request, version), `${request.target} ${request.body} at ${version}`)
        for (const dropped of request.dependencies) {
          const rest = request.dependencies.filter(each => each !== dropped)
          if (!isExplained(request, version, rest)) wanted.delete(kindOf(dropped))
        }
      }
    }
    t.same([...wanted], [])
  })
}
