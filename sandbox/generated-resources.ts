import { type Address } from './address.js'
import { digestBytes, DigestRandom } from './seeded-digest.js'
import { type EncodedValue } from './encoded-value.js'
import { generateValue } from './generated-value.js'
import { type ScheduledValue, scheduleStep } from './scheduled-value.js'
import { resourceKey } from './state-key.js'
import { printTypeTag, trustedStructTag, type StructTag } from './type-tag.js'

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
        resource: { tag, value: requireValue(tag, new DigestRandom(seed, hash, state)) }
      })
    }
  })
}

function requireValue (tag: StructTag, random: DigestRandom): EncodedValue {
  const value = generateValue(tag, random)
  if (value === undefined) throw new RangeError(`no layout: ${printTypeTag(tag)}`)
  return value
}
