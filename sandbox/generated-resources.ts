import { type Address } from './address.js'
import { digest, DigestRandom } from './digest.js'
import { generateValue } from './generated-value.js'
import { type ResourceDefinition } from './resource-definition.js'
import { readStructTag } from './type-tag.js'

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
export function generatedResources (address: Address): ResourceDefinition[] {
  return resourceTypes.map((type, index) => ({
    type,
    contentAt (ledger, version) {
      const hash = digest(ledger.seed, 'resource', address, type)
      const born = index % 3 === 2 ? 200 + hash.readUInt16LE() % 4_000 : 0
      const age = Number(version - ledger.startVersion) - born
      const lifetime = index % 7 === 6 ? 1_000 + hash.readUInt16LE(2) % 4_000 : Infinity
      const tag = readStructTag(type)
      if (age < 0 || age >= lifetime || tag === undefined) return undefined
      const period = 50 + hash.readUInt16LE(4) % 1_500
      const value = generateValue(tag, new DigestRandom(hash, Math.floor(age / period)))
      return value && { value, handles: {} }
    }
  }))
}
