import { addressBytes, shortAddress } from './address.js'
import { integerBytes, sequenceBytes, sizedBytes, textBytes } from './bcs.js'
import { type Draws } from './digest.js'
import { printString } from './json-printer.js'
import { fieldsOf, specialOf } from './structs.js'
import { type Primitive, type StructTag, type TypeTag } from './type-tag.js'

/** One value in its two forms. */
export interface DrawnValue {
  readonly json: string
  readonly bytes: Buffer
}

// Text beyond ASCII shows whether bytes are passed on as they are.
const words = ['alder', 'Ñandú', 'basalt', '漂礫', 'esker', 'kvart "kis"', 'till', 'varve']

/** Draws a value of a type; undefined when the sandbox does not know the type. */
export function drawValue (type: TypeTag, draws: Draws): DrawnValue | undefined {
  switch (type.kind) {
    case 'primitive':
      return drawPrimitive(type.name, draws)
    case 'vector':
      return drawVector(type.of, draws, draws.below(5))
    case 'struct':
      return drawStruct(type, draws)
  }
}

function drawPrimitive (name: Primitive, draws: Draws): DrawnValue | undefined {
  if (name === 'signer') return undefined
  if (name === 'address') return drawAddress(draws)
  if (name === 'bool') {
    const value = draws.below(2)
    return { json: String(value === 1), bytes: Buffer.from([value]) }
  }
  const bits = Number(name.slice(1))
  const raw = BigInt(`0x${draws.bytes(bits / 8).toString('hex')}`)
  const value = name.startsWith('i') ? BigInt.asIntN(bits, raw) : raw
  return { json: bits <= 32 ? String(value) : `"${value}"`, bytes: integerBytes(value, bits / 8) }
}

function drawAddress (draws: Draws): DrawnValue {
  const address = draws.bytes(32).toString('hex')
  return { json: `"${shortAddress(address)}"`, bytes: addressBytes(address) }
}

function drawVector (of: TypeTag, draws: Draws, length: number): DrawnValue | undefined {
  if (of.kind === 'primitive' && of.name === 'u8') {
    const bytes = draws.bytes(length * 3)
    return { json: `"0x${bytes.toString('hex')}"`, bytes: sizedBytes(bytes) }
  }
  const items: DrawnValue[] = []
  // One more is drawn than kept, so that an unknown type is unknown in an empty vector too.
  for (let index = 0; index <= length; index++) {
    const item = drawValue(of, draws)
    if (item === undefined) return undefined
    if (index < length) items.push(item)
  }
  return { json: `[${items.map(item => item.json).join(',')}]`, bytes: sequenceBytes(items.map(item => item.bytes)) }
}

function drawStruct (tag: StructTag, draws: Draws): DrawnValue | undefined {
  const special = specialOf(tag)
  if (special === 'string') {
    const text = `${words[draws.below(words.length)]} ${draws.below(10_000)}`
    return { json: printString(text), bytes: textBytes(text) }
  }
  if (special === 'object') {
    const inner = drawAddress(draws)
    return { json: `{"inner":${inner.json}}`, bytes: inner.bytes }
  }
  const drawn: Array<DrawnValue & { name: string }> = []
  for (const { name, type } of fieldsOf(tag) ?? []) {
    const value = special === 'option' && type.kind === 'vector'
      ? drawVector(type.of, draws, draws.below(2))
      : drawValue(type, draws)
    if (value === undefined) return undefined
    drawn.push({ ...value, name })
  }
  if (drawn.length === 0) return undefined
  // Members are printed by name and stored as declared.
  const members = drawn.toSorted((a, b) => a.name < b.name ? -1 : 1).map(({ name, json }) => `"${name}":${json}`)
  return { json: `{${members.join(',')}}`, bytes: Buffer.concat(drawn.map(({ bytes }) => bytes)) }
}
