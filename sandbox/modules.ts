import { type Address, addressOf } from './address.js'
import { DigestRandom } from './digest.js'
import { type Ledger } from './ledger.js'
import { moduleKey } from './state-key.js'

/** A module as it is at one version. */
export interface Module {
  readonly address: Address
  readonly name: string
  readonly key: Buffer
  readonly bytecode: Buffer
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

/** Returns the modules of an account at a version, in the order of their state keys. */
export function modulesAt (ledger: Ledger, address: Address, version: bigint): Module[] {
  const names = moduleSchedules.find(([digits]) => addressOf(digits) === address)?.[1].names ?? []
  return names.flatMap(name => moduleAt(ledger, address, name, version) ?? []).sort((a, b) => a.key.compare(b.key))
}

/** Returns one module of an account at a version; undefined if it does not exist. */
export function moduleAt (ledger: Ledger, address: Address, name: string, version: bigint): Module | undefined {
  const schedule = moduleSchedules.find(([digits]) => addressOf(digits) === address)?.[1]
  const index = schedule?.names.indexOf(name) ?? -1
  if (schedule === undefined || index < 0) return undefined
  const age = Number(version - ledger.startVersion)
  if (index >= schedule.initialCount && age < (index - schedule.initialCount + 1) * schedule.addEveryVersions) {
    return undefined
  }
  const upgrade = Math.floor(age / (schedule.upgradeEveryVersions * (index + 1)))
  return { address, name, key: moduleKey(address, name), bytecode: bytecodeOf(ledger.seed, address, name, upgrade) }
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
