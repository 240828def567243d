import { type Address, readAddress } from './address.js'
import { BcsReader } from './bcs-reader.js'
import { type Json } from './json-parser.js'
import { invalidInput, malformedBody } from './problem.js'
import { readMediaType, readJsonObject, requireMember } from './json-body.js'
import { isIdentifier, readTypeTag, type TypeTag } from './type-tag.js'
import { readIdentifierBytes, readTypeTagBytes } from './type-tag-bytes.js'

/** Function that is called, with its type arguments. */
export interface ViewTarget {
  readonly address: Address
  readonly module: string
  readonly name: string
  readonly types: readonly TypeTag[]
}

/** View request; its arguments are JSON values or BCS bytes. */
export type ViewRequest = ViewTarget & ({ readonly arguments: readonly Json[] } | { readonly bytes: readonly Buffer[] })

const type = 'ViewRequest'
const bcsType = 'application/x.aptos.view_function+bcs'

/** Parses a view request as the framework does; the returned function checks the rest after the version. */
export function readViewRequest (contentType: string | undefined, body: Buffer): () => ViewRequest {
  if (contentType !== undefined && readMediaType(contentType) === bcsType) return () => readBcsViewRequest(body)
  const request = readJsonObject(type, ['function', 'type_arguments', 'arguments'], contentType, body)
  const functionId = requireMember(type, request, 'function')
  const types = itemsOf(requireMember(type, request, 'type_arguments'), 'type_arguments').map(item => {
    if (item.kind !== 'string') {
      throw malformedBody('failed to parse "string(MoveType)": Expected input type "string", field `type_arguments`')
    }
    return item.value
  })
  const target = targetOf(functionId)
  const args = itemsOf(requireMember(type, request, 'arguments'), 'arguments')
  return () => ({ ...target, types: types.map(requireTypeArgument), arguments: args })
}

function readBcsViewRequest (body: Buffer): ViewRequest {
  const reader = new BcsReader(body)
  try {
    const address = reader.readBytes(32).toString('hex')
    const [module, name] = [readIdentifierBytes(reader), readIdentifierBytes(reader)]
    const types = reader.readItems(() => readTypeTagBytes(reader))
    const bytes = reader.readItems(() => reader.readSizedBytes())
    reader.requireEnd()
    return { address, module, name, types, bytes }
  } catch (error) {
    throw invalidInput(`Failed to deserialize input into ViewRequest: ${(error as Error).message}`)
  }
}

function targetOf (functionId: Json): Omit<ViewTarget, 'types'> {
  const text = functionId.kind === 'string' ? functionId.value : ''
  const [digits, module, name, more] = text.split('::')
  const address = readAddress(String(digits))
  if (
    address === undefined || module === undefined || name === undefined || more !== undefined ||
    !isIdentifier(module) || !isIdentifier(name)
  ) {
    throw malformedBody(
      `failed to parse "string(EntryFunctionId)": Invalid entry function ID "${text}", should be ` +
        '<address>::<module_name>::<function_name>'
    )
  }
  return { address, module, name }
}

function itemsOf (member: Json, name: string): readonly Json[] {
  if (member.kind !== 'array') {
    throw malformedBody(`failed to parse "${type}": Expected input type "array", field \`${name}\``)
  }
  return member.items
}

function requireTypeArgument (text: string): TypeTag {
  const tag = readTypeTag(text)
  if (tag === undefined) throw invalidInput(`Failed to parse type argument '${text}'`)
  return tag
}
