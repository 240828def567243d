import fc from 'fast-check'
import t from 'tap'
import { readAddress } from '../../sandbox/address.js'
import { Ledger } from '../../sandbox/ledger.js'
import { chainAsset, primaryStore } from '../../sandbox/resources.js'
import { defaultSettings } from '../../sandbox/options.js'
import { dispatch } from '../../sandbox/dispatch.js'
import { type WriteSetChange } from '../../sandbox/records.js'
import { groupKey, itemKey, moduleKey, resourceKey, stateKeyHash } from '../../sandbox/state-key.js'
import { transactionRecord } from '../../sandbox/transactions.js'
import { trustedStructTag } from '../../sandbox/type-tag.js'
import { check, seedTitle } from '../support/properties.js'

// Covers two epochs and every kind of change; ends before the large blocks.
const ledger = new Ledger({ ...defaultSettings, blocks: 420, prunedBlocks: 0 })
const listed: ReadonlyArray<readonly WriteSetChange[]> = Array.from(
  { length: Number(ledger.head.version) + 1 },
  (_, version) => transactionRecord(ledger, ledger.blockOf(BigInt(version)), BigInt(version)).changes
)
const groups = ['0x1::object::ObjectGroup', '0x42::game::PieceGroup'].map(trustedStructTag)

interface Read {
  readonly target: string
  readonly body?: string
  readonly accept?: string
}

/** Status and body of a read at a version, without the version that not-founds quote. */
function answer ({ target, body = '', accept = 'application/json' }: Read, version: number): string {
  const bytes = Buffer.from(body)
  const { status, body: text } = dispatch(
    {
      method: body === '' ? 'GET' : 'POST',
      rawTarget: `${target}?ledger_version=${version}`,
      contentLength: String(bytes.length),
      contentType: 'application/json',
      accept,
      body: bytes,
      requestIndex: 0
    },
    { ledger, position: ledger.position() },
    defaultSettings
  )
  return `${status} ${text.toString('latin1').replace(/Ledger version\(\d+\)/, '')}`
}

const resourceRead = (address: string, type: string): Read => ({
  target: `/v1/accounts/${address}/resource/${encodeURIComponent(type)}`
})
const rawItemRead = (handle: string, key: string): Read => ({
  target: `/v1/tables/${handle}/raw_item`,
  body: JSON.stringify({ key }),
  accept: 'application/x-bcs'
})
const moduleRead = (address: string, name: string): Read => ({ target: `/v1/accounts/${address}/module/${name}` })

/** State as the changes alone show it: by the hash of its key, the changes that last wrote the key. */
type Fold = Map<string, readonly WriteSetChange[]>

function apply (fold: Fold, changes: readonly WriteSetChange[]): void {
  for (const hash of new Set(changes.map(change => change.state_key_hash))) {
    fold.set(hash, changes.filter(change => change.state_key_hash === hash))
  }
}

function foldTo (version: number): Fold {
  const fold: Fold = new Map()
  for (const changes of listed.slice(0, version + 1)) apply(fold, changes)
  return fold
}

/** Returns the reads that differ from the fold at a version. */
function differences (fold: Fold, version: number): string[] {
  const wrong: string[] = []
  const expect = (read: Read, expected: string): void => {
    if (!answer(read, version).startsWith(expected)) wrong.push(`${read.target} ${read.body}`)
  }
  const accounts = new Map<string, string[]>()
  const changes = [...fold.values()].flat()
  for (const change of changes) {
    switch (change.type) {
      case 'write_resource': {
        expect(resourceRead(change.address, change.data.type), `200 ${latin1(change.data)}`)
        accounts.set(change.address, [...accounts.get(change.address) ?? [], change.data.type])
        break
      }
      case 'write_module':
        expect(moduleRead(change.address, moduleName(change)), `200 ${latin1(change.data)}`)
        break
      case 'write_table_item':
        expect(
          rawItemRead(change.handle, change.key),
          `200 ${Buffer.from(change.value.slice(2), 'hex').toString('latin1')}`
        )
        break
      case 'delete_table_item':
        expect(rawItemRead(change.handle, change.key), '404')
        break
      case 'delete_module':
        expect(moduleRead(change.address, String(change.module.split('::').at(-1))), '404')
        break
      case 'delete_resource':
        // The tag may be of a group, which no read names.
        expect(resourceRead(change.address, change.resource), '404')
        accounts.set(change.address, accounts.get(change.address) ?? [])
        break
    }
  }
  // The listings have nothing that no transaction wrote, and no member that was removed from its group.
  for (const [address, types] of accounts) {
    const read = { target: `/v1/accounts/${address}/resources` }
    const found = JSON.parse(Buffer.from(answer(read, version).slice(4), 'latin1').toString()) as Array<
      { type: string }
    >
    if (JSON.stringify(found.map(({ type }) => type).sort()) !== JSON.stringify(types.sort())) wrong.push(read.target)
  }
  return wrong
}

function latin1 (value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString('latin1')
}

function moduleName (change: Extract<WriteSetChange, { type: 'write_module' }>): string {
  return String(change.data.abi?.name)
}

t.test('the state at a version is the fold of the changes up to it', async t => {
  const last = listed.length - 1
  for (const version of [0, 1, 7, ...Array.from({ length: 6 }, (_, part) => Math.floor(last * (part + 1) / 6))]) {
    t.same(differences(foldTo(version), version), [], `version ${version}`)
  }
})

interface Dependent {
  readonly read: Read
  readonly dependsOn: (change: WriteSetChange) => boolean
}

const hashes = (keys: Buffer[]): Dependent['dependsOn'] => {
  const known = new Set(keys.map(stateKeyHash))
  return change => known.has(change.state_key_hash)
}
const addressOf = (text: string): string => String(readAddress(text))
const resourceKeys = (address: string, type: string): Buffer[] => [
  resourceKey(addressOf(address), trustedStructTag(type)),
  ...groups.map(group => groupKey(addressOf(address), group))
]
const coin = '0x1::aptos_coin::AptosCoin'
const viewCall = (name: string, args: string[] = [], types: string[] = []): Read => ({
  target: '/v1/view',
  body: JSON.stringify({ function: name, type_arguments: types, arguments: args })
})

/** Reads with the keys that their answers can depend on, computed from the request alone. */
const dependents: readonly Dependent[] = [
  ...['0xcafe', '0x42', '0x1', '0xa11ce', '0xdead'].flatMap((address): Dependent[] => [
    {
      read: { target: `/v1/accounts/${address}` },
      dependsOn: hashes(resourceKeys(address, '0x1::account::Account'))
    },
    {
      read: { target: `/v1/accounts/${address}/resources` },
      dependsOn: change => 'address' in change && change.address === address && change.type.endsWith('resource')
    },
    {
      read: { target: `/v1/accounts/${address}/modules` },
      dependsOn: change => 'address' in change && change.address === address && change.type.endsWith('module')
    },
    ...['0xa', coin].map((asset): Dependent => ({
      read: { target: `/v1/accounts/${address}/balance/${asset}` },
      dependsOn: hashes([
        ...asset === coin ? [resourceKey(addressOf(address), trustedStructTag(`0x1::coin::CoinStore<${coin}>`))] : [],
        ...groups.map(group => groupKey(primaryStore(addressOf(address), chainAsset), group))
      ])
    })),
    {
      read: viewCall('0x1::account::get_sequence_number', [address]),
      dependsOn: hashes(resourceKeys(address, '0x1::account::Account'))
    }
  ]),
  ...['Piece', 'Rank', 'Turn', 'Token', 'Badge', 'Line<u8>', 'Cell'].flatMap((name): Dependent[] =>
    ['0x42', '0x70ce', '0xcafe'].map(address => ({
      read: resourceRead(address, `0x42::game::${name}`),
      dependsOn: hashes(resourceKeys(address, `0x42::game::${name}`))
    }))
  ),
  ...['menu', 'till', 'seasonal'].map((name): Dependent => ({
    read: moduleRead('0xcafe', name),
    dependsOn: hashes([moduleKey(addressOf('cafe'), name)])
  })),
  ...['height', 'price_of'].map((name): Dependent => ({
    read: viewCall(`0xfeed::oracle::${name}`, name === 'height' ? [] : ['1'], name === 'height' ? [] : ['u8']),
    dependsOn: hashes(resourceKeys('0x1', '0x1::block::BlockResource'))
  })),
  ...['0x5eed', '0x42', '0xb00c'].flatMap((handle): Dependent[] =>
    [0n, 1n, 2n, 7n, 11n, 110n].flatMap((key): Dependent[] => {
      const bytes = Buffer.alloc(8)
      bytes.writeBigUInt64LE(key)
      const item = {
        target: `/v1/tables/${handle}/item`,
        body: JSON.stringify({ key_type: 'u64', value_type: 'u64', key: `${key}` })
      }
      const dependsOn = hashes([itemKey(addressOf(handle), bytes)])
      return [{ read: item, dependsOn }, { read: rawItemRead(handle, `0x${bytes.toString('hex')}`), dependsOn }]
    })
  )
]

// Draws a read at random, and a version at which a transaction lists a key of some read, or any version.
const interesting = listed.flatMap((changes, version) =>
  version > 0 && dependents.some(({ dependsOn }) => changes.some(dependsOn)) ? version : []
)
const drawn = fc.record({
  version: fc.oneof(fc.integer({ min: 1, max: listed.length - 1 }), fc.constantFrom(...interesting)),
  dependent: fc.constantFrom(...dependents)
})

/** True unless the answer changes at a version whose transaction lists no key that the answer can depend on. */
function isExplained (
  { version, dependent: { read, dependsOn } }: { version: number, dependent: Dependent },
  changes: readonly WriteSetChange[] = listed[version] ?? []
): boolean {
  return answer(read, version) === answer(read, version - 1) || changes.some(dependsOn)
}

t.test(`a response changes only where a transaction lists a key that it depends on (${seedTitle})`, async () => {
  check(fc.property(drawn, drawing => isExplained(drawing)), 3_000)
})
