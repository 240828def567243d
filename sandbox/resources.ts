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

const depositorPlans = [accountPlan(depositor), coinStore, ...drawnResources(depositor)]

/** A resource of an account as it is at one version. */
export interface Resource extends Held {
  readonly address: Address
  readonly tag: StructTag
  readonly key: Buffer
}

/**
 * A resource of an account at a version, which must lie within the chain; undefined where the account does not have it.
 */
export function resourceAt (ledger: Ledger, address: Address, tag: StructTag, version: bigint): Resource | undefined {
  const type = printTypeTag(tag)
  const plan = plansOf(address).find(plan => plan.type === type)
  return plan && heldAt(plan, ledger, address, tag, version)
}

/** Every resource of an account at a version, in the order of their state keys. */
export function resourcesAt (ledger: Ledger, address: Address, version: bigint): Resource[] {
  return plansOf(address).flatMap(plan => {
    const tag = readStructTag(plan.type)
    return (tag && heldAt(plan, ledger, address, tag, version)) ?? []
  }).toSorted((one, other) => one.key.compare(other.key))
}

/** A resource as JSON prints it. */
export function resourceJson ({ tag, value }: Resource): string {
  return `{"type":${JSON.stringify(printTypeTag(tag))},"data":${value.json}}`
}

function heldAt (
  plan: ResourcePlan,
  ledger: Ledger,
  address: Address,
  tag: StructTag,
  version: bigint
): Resource | undefined {
  const held = plan.at(ledger, version)
  return held && { ...held, address, tag, key: resourceKey(address, tag) }
}

function plansOf (address: Address): readonly ResourcePlan[] {
  if (address === addressOf('1')) return frameworkResources
  if (address === chainAsset) return assetResources
  if (!hasAccount(address)) return storePlans(address)
  if (address === depositor) return depositorPlans
  return [accountPlan(address), ...address === addressOf('42') ? [turnPlan] : []]
}
