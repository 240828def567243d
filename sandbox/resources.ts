import { accountDefinition, hasAccount } from './account-resource.js'
import { type Address, addressOf } from './address.js'
import { assetResources, chainAsset, coinStore, storeDefinitions } from './native-coin-resources.js'
import { depositAccount } from './deposit-events.js'
import { generatedResources } from './generated-resources.js'
import { frameworkResources } from './framework-resources.js'
import { type Ledger } from './ledger.js'
import { type ResourceContent, type ResourceDefinition } from './resource-definition.js'
import { resourceKey } from './state-key.js'
import { turnDefinition } from './turn-resource.js'
import { printTypeTag, readStructTag, type StructTag } from './type-tag.js'

const depositorDefinitions = [accountDefinition(depositAccount), coinStore, ...generatedResources(depositAccount)]

/** Resource of an account at one version. */
export interface Resource extends ResourceContent {
  readonly address: Address
  readonly tag: StructTag
  readonly key: Buffer
}

/** Returns a resource of an account at a version of the chain; undefined if the account does not have it. */
export function resourceAt (ledger: Ledger, address: Address, tag: StructTag, version: bigint): Resource | undefined {
  const type = printTypeTag(tag)
  const definition = definitionsOf(address).find(definition => definition.type === type)
  return definition && resolveResource(definition, ledger, address, tag, version)
}

/** Returns every resource of an account at a version, in the order of their state keys. */
export function resourcesAt (ledger: Ledger, address: Address, version: bigint): Resource[] {
  return definitionsOf(address).flatMap(definition => {
    const tag = readStructTag(definition.type)
    return (tag && resolveResource(definition, ledger, address, tag, version)) ?? []
  }).toSorted((one, other) => one.key.compare(other.key))
}

/** Prints a resource as JSON. */
export function resourceJson ({ tag, value }: Resource): string {
  return `{"type":${JSON.stringify(printTypeTag(tag))},"data":${value.json}}`
}

function resolveResource (
  definition: ResourceDefinition,
  ledger: Ledger,
  address: Address,
  tag: StructTag,
  version: bigint
): Resource | undefined {
  const content = definition.contentAt(ledger, version)
  return content && { ...content, address, tag, key: resourceKey(address, tag) }
}

function definitionsOf (address: Address): readonly ResourceDefinition[] {
  if (address === addressOf('1')) return frameworkResources
  if (address === chainAsset) return assetResources
  if (!hasAccount(address)) return storeDefinitions(address)
  if (address === depositAccount) return depositorDefinitions
  return [accountDefinition(address), ...address === addressOf('42') ? [turnDefinition] : []]
}
