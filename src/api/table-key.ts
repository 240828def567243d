import { shortAddressOf } from './address.js'
import { integerNormaliser } from './integer.js'
import { quoteJson, unescapeJson } from './strict-json-object.js'
import { type TypeTag } from './type-tag.js'

/** Returns one text for all values of a JSON string that nodes treat as equal. */
type Normalise = (text: string) => string

/** Rules by which the JSON of a type is normalised. */
interface KeyShape {
  readonly items: KeyShape | undefined
  readonly normaliseString: Normalise | undefined
}

const [quote, comma, backslash, openBracket, closeBracket, openBrace, closeBrace] = [
  0x22,
  0x2c,
  0x5c,
  0x5b,
  0x5d,
  0x7b,
  0x7d
]

// Leaves longer lists unsorted: no struct has as many members, and sorting them would take longer than reading them.
const maxSortedMembers = 32

/**
 * Returns one text for all texts of the same table key (docs/node-behaviour.md, "Table keys"). A value that does not
 * fit its type stays unchanged, because the upstream decides on it.
 */
export function canonicalKey (type: TypeTag, text: string): string {
  return new KeyCanonicaliser(text).value(shapeOf(type)) ?? text
}

/** Returns one text for all forms of the same bytes in hex; other text is returned unchanged. */
export function canonicalHex (text: string): string {
  const digits = text.startsWith('0x') ? text.slice(2) : text
  return digits.length % 2 === 0 && !/[^0-9a-fA-F]/.test(digits) ? `0x${digits.toLowerCase()}` : text
}

function shapeOf (type: TypeTag): KeyShape {
  switch (type.kind) {
    case 'named':
      return {
        items: undefined,
        normaliseString: type.name === 'address' ? shortAddressOf : integerNormaliser(type.name)
      }
    case 'vector':
      return {
        items: shapeOf(type.of),
        normaliseString: type.of.kind === 'named' && type.of.name === 'u8' ? canonicalHex : undefined
      }
    case 'struct':
      return { items: undefined, normaliseString: isObjectPointer(type) ? shortAddressOf : undefined }
  }
}

function isObjectPointer (type: TypeTag): boolean {
  return type.kind === 'struct' && BigInt(`0x${type.address}`) === 1n && type.module === 'object' &&
    type.name === 'Object'
}

// Insertion sort, because `sort` takes longer to start than this takes to finish.
function sortByInsertion (members: string[]): string[] {
  for (const [at, member] of members.entries()) {
    let to = at
    for (let before = members[to - 1]; before !== undefined && before > member; before = members[to - 1]) {
      members[to--] = before
    }
    members[to] = member
  }
  return members
}

/**
 * Walks once over valid JSON without blanks. Each step returns the canonical text of the value that it passed;
 * undefined if the value is canonical already.
 */
class KeyCanonicaliser {
  readonly #text: string
  #at = 0

  constructor (text: string) {
    this.#text = text
  }

  value (shape: KeyShape | undefined): string | undefined {
    switch (this.#text.charCodeAt(this.#at)) {
      case quote:
        return this.#string(shape?.normaliseString)
      case openBracket:
        return this.#array(shape?.items)
      case openBrace:
        return this.#object()
      // Preserves number texts, because 1.0 and 1 are two keys to a node.
      default:
        return this.#scalar()
    }
  }

  #string (normalise: Normalise | undefined): string | undefined {
    const from = this.#at++
    let isEscaped = false
    for (let code = this.#text.charCodeAt(this.#at); code !== quote; code = this.#text.charCodeAt(this.#at)) {
      if (code === backslash) isEscaped = true
      this.#at += code === backslash ? 2 : 1
    }
    this.#at++
    if (!isEscaped && normalise === undefined) return undefined
    const value = isEscaped ? unescapeJson(this.#text.slice(from, this.#at)) : this.#text.slice(from + 1, this.#at - 1)
    const normalised = normalise === undefined ? value : normalise(value)
    return !isEscaped && normalised === value ? undefined : quoteJson(normalised)
  }

  #array (items: KeyShape | undefined): string | undefined {
    let copiedTo = this.#at
    let text = ''
    for (let isOpen = !this.#isEmpty(closeBracket); isOpen; isOpen = this.#text.charCodeAt(this.#at++) === comma) {
      const from = this.#at
      const item = this.value(items)
      if (item === undefined) continue
      text += this.#text.slice(copiedTo, from) + item
      copiedTo = this.#at
    }
    return text === '' ? undefined : text + this.#text.slice(copiedTo, this.#at)
  }

  /** Sorts members by name, because their order means nothing in a struct. */
  #object (): string | undefined {
    const members: string[] = []
    let isSame = true
    let last = ''
    for (let isOpen = !this.#isEmpty(closeBrace); isOpen; isOpen = this.#text.charCodeAt(this.#at++) === comma) {
      const from = this.#at
      const name = this.#string(undefined)
      const nameTo = this.#at++
      const value = this.value(undefined)
      const isThere = name === undefined && value === undefined
      const member = isThere
        ? this.#text.slice(from, this.#at)
        : `${name ?? this.#text.slice(from, nameTo)}:${value ?? this.#text.slice(nameTo + 1, this.#at)}`
      members.push(member)
      isSame &&= isThere && last < member
      last = member
    }
    if (isSame) return undefined
    // Names are quoted and differ, so the order of whole members is the order of their names.
    return `{${(members.length > maxSortedMembers ? members : sortByInsertion(members)).join(',')}}`
  }

  /** Enters an array or object; moves past an empty one and returns true. */
  #isEmpty (closing: number): boolean {
    const isEmpty = this.#text.charCodeAt(this.#at + 1) === closing
    this.#at += isEmpty ? 2 : 1
    return isEmpty
  }

  #scalar (): undefined {
    let code = this.#text.charCodeAt(this.#at)
    while (code !== comma && code !== closeBracket && code !== closeBrace && !Number.isNaN(code)) {
      code = this.#text.charCodeAt(++this.#at)
    }
  }
}
