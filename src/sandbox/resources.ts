import { accountPlan, hasAccount } from './account-resource.js'
import { type Address, addressOf } from './address.js'
import { assetResources, chainAsset, coinStore, storePlans } from './coin-resources.js'
import { depositor } from './deposits.js'
import { drawnResources } from './drawn-resources.js'
import { frameworkResources } from './framework-resources.js'
import { type Ledger } from './ledger.js'
import { type Held, type ResourcePlan } from './resource-plan.js'
import { resourceKey } from './state-key.js'
import { turnPlan } from './turn-resource.js'
import { printTypeTag, readStructTag, type StructTag } from './type-tag.js'

/** A resource of an account as it is at one version. */
export interface Resource extends Held {
  readonly address: Address
  readonly tag: StructTag
  readonly key: Buffer
}

/** A resource of an account at a version, which must lie within the chain; undefined where the account does not have it. */
export function resourceAt (ledger: Ledger, address: Address, tag: StructTag, version: bigint): Resource | undefined {
  const type = printTypeTag(tag)
  const held = plansOf(address).find(plan => plan.type === type)?.at(ledger, version)
  return held && { ...held, address, tag, key: resourceKey(address, tag) }
}

/** Every resource of an account at a version, in the order of their state keys. */
export function resourcesAt (ledger: Ledger, address: Address, version: bigint): Resource[] {
  return plansOf(address).flatMap(({ type }) => {
    const tag = readStructTag(type)
    const resource = tag && resourceAt(ledger, address, tag, version)
    return resource ?? []
  }).toSorted((one, other) => one.key.compare(other.key))
}

/** A resource as JSON prints it. */
export function resourceJson ({ tag, value }: Resource): string {
  return `{"type":${JSON.stringify(printTypeTag(tag))},"data":${value.json}}`
}

function plansOf (address: Address): readonly ResourcePlan[] {
  if (address === addressOf('1')) return frameworkResources
  if (address === chainAsset) return assetResources
  if (!hasAccount(address)) return storePlans(address)
  return [accountPlan(address), ...address === depositor ? [coinStore, ...drawnResources(address)] : [], ...address === addressOf('42') ? [turnPlan] : []]
}
