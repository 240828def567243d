import { type Address, addressOf } from './address.js'
import { Draws } from './digest.js'
import { type Ledger } from './ledger.js'
import { moduleKey } from './state-key.js'

/** A module as it is at one version. */
export interface Module {
  readonly address: Address
  readonly name: string
  readonly key: Buffer
  readonly bytecode: Buffer
}

interface Plan {
  readonly names: readonly string[]
  readonly atStart: number
  /** Versions between two additions, once those of the start are there. */
  readonly addEvery: number
  /** Versions between two upgrades of the first module; later ones are slower. */
  readonly upgradeEvery: number
}

const framework = [
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

const plans: ReadonlyArray<readonly [string, Plan]> = [
  ['1', { names: framework, atStart: framework.length, addEvery: 0, upgradeEvery: 9_000 }],
  ['42', {
    names: ['game', 'shop', 'board', 'tournament', 'season'],
    atStart: 3,
    addEvery: 2_500,
    upgradeEvery: 1_500
  }],
  ['cafe', {
    names: ['menu', 'till', 'barista', 'beans', 'loyalty', 'orders', 'milk', 'tips'],
    atStart: 1,
    addEvery: 900,
    upgradeEvery: 400
  }],
  ['feed', { names: ['oracle'], atStart: 1, addEvery: 0, upgradeEvery: 5_000 }]
]

/** The modules of an account at a version, in the order of their state keys. */
export function modulesAt (ledger: Ledger, address: Address, version: bigint): Module[] {
  const names = plans.find(([digits]) => addressOf(digits) === address)?.[1].names ?? []
  return names.flatMap(name => moduleAt(ledger, address, name, version) ?? []).sort((a, b) => a.key.compare(b.key))
}

/** One module of an account at a version; undefined where it is not there. */
export function moduleAt (ledger: Ledger, address: Address, name: string, version: bigint): Module | undefined {
  const plan = plans.find(([digits]) => addressOf(digits) === address)?.[1]
  const index = plan?.names.indexOf(name) ?? -1
  if (plan === undefined || index < 0) return undefined
  const age = Number(version - ledger.startVersion)
  if (index >= plan.atStart && age < (index - plan.atStart + 1) * plan.addEvery) return undefined
  const upgrade = Math.floor(age / (plan.upgradeEvery * (index + 1)))
  return { address, name, key: moduleKey(address, name), bytecode: bytecodeOf(ledger.seed, address, name, upgrade) }
}

function bytecodeOf (seed: number, address: Address, name: string, upgrade: number): Buffer {
  const draws = new Draws(seed, 'module', address, name, upgrade)
  // Every module begins with the magic number and the version of its format.
  return Buffer.concat([Buffer.from('a11ceb0b07000000', 'hex'), Buffer.from(name), draws.bytes(150 + draws.below(300))])
}
