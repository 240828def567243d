import { digestBytes, DigestRandom } from './digests.js'
import { generateValue } from './values.js'
import { resourceKey, moduleKey, type StateKey } from './state-key.js'
import { trustedStructTag } from './type-tag.js'
import { type Address, addressOf } from './address.js'
import { type Ledger } from './ledger.js'
import { type StateValue, type Write } from './write.js'

/** Scheduled values change at multiples of this number of places only, so that most places need not look at any. */
export const scheduleStep = 10

/** Value that changes as the chain grows: the next user transaction of the usual kind writes it. */
export interface ScheduledValue {
  readonly key: StateKey
  /** Number of the state, by the versions since the start; undefined if the value does not exist. */
  readonly stateAt: (place: number) => number | undefined
  readonly valueOf: (ledger: Ledger, state: number) => StateValue
}

/** Writes a value as it is at a place. */
export function scheduledWrite ({ key, stateAt, valueOf }: ScheduledValue, ledger: Ledger, place: number): Write {
  const state = stateAt(place)
  return { key, value: () => state === undefined ? undefined : valueOf(ledger, state) }
}

interface ModuleSchedule {
  readonly names: readonly string[]
  readonly initialCount: number
  /** Versions between two additions after the initial modules. */
  readonly addEveryVersions: number
  /** Versions between two upgrades of the first module; later modules are upgraded less often. */
  readonly upgradeEveryVersions: number
}

const frameworkModuleNames = [
  'acl any bcs code coin guid util block chain debug error',
  'event stake table hash math64 object option signer string vector voting',
  'account genesis vesting version pool_u64 timestamp aptos_coin governance',
  'reconfiguration fungible_asset transaction_fee primary_fungible_store aptos_account'
].flatMap(line => line.split(' '))

const moduleSchedules: ReadonlyArray<readonly [string, ModuleSchedule]> = [
  ['1', {
    names: frameworkModuleNames,
    initialCount: frameworkModuleNames.length,
    addEveryVersions: 0,
    upgradeEveryVersions: 9_000
  }],
  ['42', {
    names: ['game', 'shop', 'board', 'tournament', 'season'],
    initialCount: 3,
    addEveryVersions: 2_500,
    upgradeEveryVersions: 1_500
  }],
  ['cafe', {
    names: ['menu', 'till', 'barista', 'beans', 'loyalty', 'orders', 'milk', 'tips'],
    initialCount: 1,
    addEveryVersions: 900,
    upgradeEveryVersions: 400
  }],
  ['feed', { names: ['oracle'], initialCount: 1, addEveryVersions: 0, upgradeEveryVersions: 5_000 }]
]

/** Modules that are published and upgraded as the chain grows. */
export const scheduledModules: readonly ScheduledValue[] = moduleSchedules.flatMap(([digits, schedule]) =>
  schedule.names.map((name, index): ScheduledValue => {
    const address = addressOf(digits)
    const key = moduleKey(address, name)
    return {
      key,
      stateAt: place => upgradeAt(schedule, index, place),
      valueOf: ({ seed }, upgrade) => ({
        kind: 'module',
        module: { address, name, key, bytecode: bytecodeOf(seed, address, name, upgrade) }
      })
    }
  })
)

// Counts the upgrades of a module; undefined until it is published.
function upgradeAt (schedule: ModuleSchedule, index: number, place: number): number | undefined {
  const isInitial = index < schedule.initialCount
  if (!isInitial && place < (index - schedule.initialCount + 1) * schedule.addEveryVersions) return undefined
  return Math.floor(place / (schedule.upgradeEveryVersions * (index + 1)))
}

function bytecodeOf (seed: number, address: Address, name: string, upgrade: number): Buffer {
  const random = new DigestRandom(seed, 'module', address, name, upgrade)
  // Every module begins with the magic number and the version of its format.
  return Buffer.concat([
    Buffer.from('a11ceb0b07000000', 'hex'),
    Buffer.from(name),
    random.bytes(150 + random.below(300))
  ])
}

const valueTypes = ['bool', 'u8', 'u16', 'u32', 'u64', 'u128', 'u256', 'i8', 'i16', 'i32', 'i64', 'i128', 'address']

// Enough types to test paging; some resources appear after the start, and some are deleted later.
const resourceTypes = [
  '0x42::game::Cell',
  '0x42::shop::Item',
  ...[
    ...valueTypes,
    ...valueTypes.map(type => `vector<${type}>`),
    '0x1::string::String',
    '0x42::shop::Item',
    '0x1::option::Option<u64>',
    '0x1::object::Object<0x42::game::Cell>'
  ].map(type => `0x42::game::Line<${type}>`)
]

/** Defines the generated resources of an account; each value changes after its own number of versions. */
export function generatedResources (address: Address): ScheduledValue[] {
  return resourceTypes.map((type, index) => {
    const tag = trustedStructTag(type)
    const hash = digestBytes('resource', address, type)
    const drawSteps = (at: number, count: number): number => hash.readUInt16LE(at) % count * scheduleStep
    const born = index % 3 === 2 ? 200 + drawSteps(0, 400) : 0
    const lifetime = index % 7 === 6 ? 1_000 + drawSteps(2, 400) : Infinity
    const period = 50 + drawSteps(4, 150)
    return {
      key: resourceKey(address, tag),
      stateAt (place) {
        const age = place - born
        return age < 0 || age >= lifetime ? undefined : Math.floor(age / period)
      },
      valueOf: ({ seed }, state) => ({
        kind: 'resource',
        resource: { tag, value: generateValue(tag, new DigestRandom(seed, hash, state)) }
      })
    }
  })
}
