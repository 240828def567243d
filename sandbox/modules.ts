import { type Address, addressOf } from './address.js'
import { DigestRandom } from './seeded-digest.js'
import { type ScheduledValue } from './scheduled-value.js'
import { moduleKey } from './state-key.js'

interface ModuleSchedule {
  readonly names: readonly string[]
  readonly initialCount: number
  /** Versions between two additions after the initial modules. */
  readonly addEveryVersions: number
  /** Versions between two upgrades of the first module; later modules are upgraded less often. */
  readonly upgradeEveryVersions: number
}

const frameworkModuleNames = [
  'acl',
  'any',
  'bcs',
  'code',
  'coin',
  'guid',
  'util',
  'block',
  'chain',
  'debug',
  'error',
  'event',
  'stake',
  'table',
  'hash',
  'math64',
  'object',
  'option',
  'signer',
  'string',
  'vector',
  'voting',
  'account',
  'genesis',
  'vesting',
  'version',
  'pool_u64',
  'timestamp',
  'aptos_coin',
  'governance',
  'reconfiguration',
  'fungible_asset',
  'transaction_fee',
  'primary_fungible_store'
]

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
