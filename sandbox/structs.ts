import { addressOf } from './address.js'
import { type Primitive, printTypeTag, type StructTag, type TypeTag } from './type-tag.js'

/** Field of a struct. */
export interface Field {
  readonly name: string
  readonly type: TypeTag
}

interface Declaration {
  readonly params: number
  readonly fields: (arg: TypeTag) => Field[]
}

const cell = structOf('42', 'game', 'Cell')

const declarations: Readonly<Record<string, Declaration>> = {
  '0x42::game::Cell': {
    params: 0,
    fields: () => [
      { name: 'x', type: primitive('u64') },
      { name: 'y', type: primitive('u64') },
      { name: 'owner', type: primitive('address') }
    ]
  },
  '0x42::game::Line': {
    params: 1,
    fields: arg => [{ name: 'from', type: cell }, { name: 'to', type: cell }, { name: 'tag', type: arg }]
  },
  '0x42::shop::Item': {
    params: 0,
    fields: () => [
      { name: 'name', type: structOf('1', 'string', 'String') },
      { name: 'price', type: primitive('u128') },
      { name: 'sold', type: primitive('bool') }
    ]
  },
  '0x1::option::Option': { params: 1, fields: arg => [{ name: 'vec', type: { kind: 'vector', of: arg } }] }
}

/** Returns the fields of a struct in declared order; undefined if the sandbox does not know the struct. */
export function fieldsOf (tag: StructTag): Field[] | undefined {
  const declared = declarations[qualifiedNameOf(tag)]
  if (declared === undefined || declared.params !== tag.args.length) return undefined
  return declared.fields(tag.args[0] ?? tag)
}

/** Returns the special JSON format of a struct; undefined if it has none. */
export function specialFormatOf (tag: StructTag): 'string' | 'object' | 'option' | undefined {
  if (qualifiedNameOf(tag) === '0x1::string::String' && tag.args.length === 0) return 'string'
  if (qualifiedNameOf(tag) === '0x1::object::Object' && tag.args.length === 1) return 'object'
  return qualifiedNameOf(tag) === '0x1::option::Option' && tag.args.length === 1 ? 'option' : undefined
}

function qualifiedNameOf (tag: StructTag): string {
  return printTypeTag({ ...tag, args: [] })
}

function primitive (name: Primitive): TypeTag {
  return { kind: 'primitive', name }
}

function structOf (digits: string, module: string, name: string): TypeTag {
  return { kind: 'struct', address: addressOf(digits), module, name, args: [] }
}
