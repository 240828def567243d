import fc from 'fast-check'

const hexDigit = fc.constantFrom(...'0123456789abcdef')

/** Canonical digits of an address without leading zeros, and any of its forms. */
export const address = fc.string({ unit: hexDigit, minLength: 1, maxLength: 64 }).map(text =>
  text.replace(/^0+(?=.)/, '')
)

export function renderAddress (digits: string, how: { zeros: number, prefix: boolean, upper: boolean }): string {
  const padded = '0'.repeat(Math.min(how.zeros, 64 - digits.length)) + digits
  return (how.prefix ? '0x' : '') + (how.upper ? padded.toUpperCase() : padded)
}

export const addressStyle = fc.record({ zeros: fc.nat(64), prefix: fc.boolean(), upper: fc.boolean() })

/** A u64 and any of its forms. */
export const u64 = fc.bigInt(0n, 2n ** 64n - 1n)

export function renderInteger (value: bigint, how: { zeros: number, plus: boolean }): string {
  return (how.plus ? '+' : '') + '0'.repeat(how.zeros) + String(value)
}

export const integerStyle = fc.record({ zeros: fc.nat(30), plus: fc.boolean() })

const identifier = fc.tuple(
  fc.constantFrom(...'abcXYZ'),
  fc.string({ unit: fc.constantFrom(...'abcXYZ019_'), maxLength: 6 })
).map(([first, rest]) => first + rest)

/** A type tag as a tree, which has many forms. */
export type Tag = string | { vector: Tag } | { address: string, module: string, name: string, of: Tag[] }

const primitives = ['bool', 'u8', 'u16', 'u32', 'u64', 'u128', 'u256', 'i8', 'i64', 'i256', 'address']

export const { tag, struct } = fc.letrec<{ tag: Tag, struct: Exclude<Tag, string | { vector: Tag }> }>(tie => ({
  struct: fc.record({
    address,
    module: identifier,
    name: identifier,
    of: fc.array(tie('tag'), { maxLength: 2, depthIdentifier: 'tag' })
  }),
  tag: fc.oneof(
    { maxDepth: 3, depthIdentifier: 'tag' },
    fc.constantFrom(...primitives),
    fc.record({ vector: tie('tag') }),
    tie('struct')
  )
}))

export const tagStyle = fc.record({
  blank: fc.constantFrom('', ' ', '\t', '  '),
  upperX: fc.boolean(),
  upper: fc.boolean(),
  zeros: fc.nat(64),
  comma: fc.boolean()
})

export function renderTag (
  of: Tag,
  how: { blank: string, upperX: boolean, upper: boolean, zeros: number, comma: boolean }
): string {
  const { blank } = how
  if (typeof of === 'string') return blank + of + blank
  if ('vector' in of) return `vector${blank}<${renderTag(of.vector, how)}${how.comma ? `,${blank}` : ''}>`
  const digits = renderAddress(of.address, { zeros: how.zeros, prefix: false, upper: how.upper })
  const list = of.of.map(item => renderTag(item, how)).join(',')
  return `${blank}0${how.upperX ? 'X' : 'x'}${digits}${blank}::${blank}${of.module}::${of.name}${blank}` +
    (list === '' ? '' : `<${list}${how.comma ? `${blank},` : ''}>${blank}`)
}

/** Returns the plainest form of a tag. */
export function canonicalTag (of: Tag): string {
  return renderTag(of, { blank: '', upperX: false, upper: false, zeros: 0, comma: false })
}
