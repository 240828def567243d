import { type Address } from './address.js'
import { digest, Draws } from './digest.js'
import { drawValue } from './drawn-value.js'
import { type ResourcePlan } from './resource-plan.js'
import { readStructTag } from './type-tag.js'

const held = ['bool', 'u8', 'u16', 'u32', 'u64', 'u128', 'u256', 'i8', 'i16', 'i32', 'i64', 'i128', 'address']

// So many that a listing has pages; some were not there at first, and some went again.
const types = [
  '0x42::game::Cell',
  '0x42::shop::Item',
  ...[
    ...held,
    ...held.map(type => `vector<${type}>`),
    '0x1::string::String',
    '0x42::shop::Item',
    '0x1::option::Option<u64>',
    '0x1::object::Object<0x42::game::Cell>'
  ].map(type => `0x42::game::Line<${type}>`)
]

/** The resources of an account that plays: their values are drawn anew after as many versions as each of them takes. */
export function drawnResources (address: Address): ResourcePlan[] {
  return types.map((type, index) => ({
    type,
    at (ledger, version) {
      const mark = digest(ledger.seed, 'resource', address, type)
      const born = index % 3 === 2 ? 200 + mark.readUInt16LE() % 4_000 : 0
      const age = Number(version - ledger.startVersion) - born
      const lasts = index % 7 === 6 ? 1_000 + mark.readUInt16LE(2) % 4_000 : Infinity
      const tag = readStructTag(type)
      if (age < 0 || age >= lasts || tag === undefined) return undefined
      const period = 50 + mark.readUInt16LE(4) % 1_500
      const value = drawValue(tag, new Draws(mark, Math.floor(age / period)))
      return value && { value, handles: {} }
    }
  }))
}
