import { addressBytes, shortAddress } from './address.js'
import { integerBytes, sequenceBytes, sizedBytes, textBytes } from './bcs.js'
import { type DigestRandom } from './seeded-digest.js'
import { type EncodedValue, structValue } from './encoded-value.js'
import { printString } from './json-printer.js'
import { fieldsOf, specialFormatOf } from './structs.js'
import { type Primitive, type StructTag, type TypeTag } from './type-tag.js'

// Includes text beyond ASCII, so that tests detect a proxy that changes bytes.
const sampleWords = ['alder', 'Ñandú', 'basalt', '漂礫', 'esker', 'kvart "kis"', 'till', 'varve']

/** Draws a value of a type; undefined when the sandbox does not know the type. */
export function generateValue (type: TypeTag, random: DigestRandom): EncodedValue | undefined {
  switch (type.kind) {
    case 'primitive':
      return generatePrimitive(type.name, random)
    case 'vector':
      return generateVector(type.of, random, random.below(5))
    case 'struct':
      return generateStruct(type, random)
  }
}

function generatePrimitive (name: Primitive, random: DigestRandom): EncodedValue | undefined {
  if (name === 'signer') return undefined
  if (name === 'address') return generateAddress(random)
  if (name === 'bool') {
    const value = random.below(2)
    return { json: String(value === 1), bytes: Buffer.from([value]) }
  }
  const bits = Number(name.slice(1))
  const raw = BigInt(`0x${random.bytes(bits / 8).toString('hex')}`)
  const value = name.startsWith('i') ? BigInt.asIntN(bits, raw) : raw
  return { json: bits <= 32 ? String(value) : `"${value}"`, bytes: integerBytes(value, bits / 8) }
}

function generateAddress (random: DigestRandom): EncodedValue {
  const address = random.bytes(32).toString('hex')
  return { json: `"${shortAddress(address)}"`, bytes: addressBytes(address) }
}

function generateVector (of: TypeTag, random: DigestRandom, length: number): EncodedValue | undefined {
  if (of.kind === 'primitive' && of.name === 'u8') {
    const bytes = random.bytes(length * 3)
    return { json: `"0x${bytes.toString('hex')}"`, bytes: sizedBytes(bytes) }
  }
  const items: EncodedValue[] = []
  // Draws one item more than needed, so that an empty vector of an unknown type is unknown too.
  for (let index = 0; index <= length; index++) {
    const item = generateValue(of, random)
    if (item === undefined) return undefined
    if (index < length) items.push(item)
  }
  return { json: `[${items.map(item => item.json).join(',')}]`, bytes: sequenceBytes(items.map(item => item.bytes)) }
}

function generateStruct (tag: StructTag, random: DigestRandom): EncodedValue | undefined {
  const special = specialFormatOf(tag)
  if (special === 'string') {
    const text = `${sampleWords[random.below(sampleWords.length)]} ${random.below(10_000)}`
    return { json: printString(text), bytes: textBytes(text) }
  }
  if (special === 'object') {
    const inner = generateAddress(random)
    return { json: `{"inner":${inner.json}}`, bytes: inner.bytes }
  }
  const fields: Array<readonly [name: string, value: EncodedValue]> = []
  for (const { name, type } of fieldsOf(tag) ?? []) {
    const value = special === 'option' && type.kind === 'vector'
      ? generateVector(type.of, random, random.below(2))
      : generateValue(type, random)
    if (value === undefined) return undefined
    fields.push([name, value])
  }
  return fields.length === 0 ? undefined : structValue(fields)
}
