import { type Address, readAddress, longAddress, shortAddress } from './address.js'
import { BcsReader, sequenceBytes } from './bcs.js'
import { type Json, printJson } from './json.js'
import { invalidInput, malformedBody, Problem } from './problem.js'
import { readMediaType, readJsonObject, requireMember, readU64Query } from './params.js'
import {
  isIdentifier,
  printTypeTag,
  readTypeTag,
  type TypeTag,
  readIdentifierBytes,
  readTypeTagBytes,
  trustedTypeTag
} from './type-tag.js'
import {
  type ResponseFormat,
  requestedFormat,
  type RequestContext,
  requireVersion,
  successResponse,
  type LedgerSnapshot
} from './request-context.js'
import { boolValue, type EncodedValue, readValue, u128Value, u64Value, valueBytes } from './values.js'
import { type SandboxResponse } from './make-response.js'
import { balanceAt, frameworkResourceAt, moduleAt } from './state.js'
import { type FunctionSignature, viewSignatures } from './module-abi.js'
import { nativeCoinType } from './resources.js'
import { digestBytes, DigestRandom } from './digests.js'
import { type Ledger } from './ledger.js'

/** Calls a view function at a version; responds with the list of its results and the gas used. */
export function readView (context: RequestContext): SandboxResponse {
  const finishRequest = readViewRequest(context.contentType, context.body)
  const requestedVersion = readU64Query(context.query, 'ledger_version')
  const format = requestedFormat(context, 'View function')
  const version = requireVersion(context.snapshot, requestedVersion)
  const request = finishRequest()
  const path = `${shortAddress(request.address)}::${request.module}::${request.name}`
  const calledView = requireViewFunction(context.snapshot, request, path, version)
  const call = {
    ledger: context.snapshot.ledger,
    version,
    types: request.types,
    values: argumentsOf(calledView, request, path)
  }
  const returned = implementations[path]?.(call) ?? [...call.values]
  if (typeof returned === 'string') throw new Problem('ledger', 'invalid_input', returned, 400, 4016)
  const response = successResponse(context, format, bodyOf(format, returned))
  return {
    ...response,
    headers: [...response.headers, [`${context.settings.family}gas-used`, String(gasUsedBy(path, call))]]
  }
}

function requireViewFunction (
  { ledger }: LedgerSnapshot,
  request: ViewRequest,
  path: string,
  version: bigint
): FunctionSignature {
  const { address, module, types } = request
  if (moduleAt(ledger, address, module, version) === undefined) {
    throw invalidInput(
      `Module ModuleId { address: ${longAddress(address).slice(2)}, name: Identifier("${module}") } can't be found`
    )
  }
  const calledView = viewSignatures[path]
  if (calledView === undefined) throw invalidInput(`could not find view function by ${path}`)
  if (types.length !== calledView.typeParameterCount) {
    throw invalidInput(
      `expected ${calledView.typeParameterCount} type arguments for view function ${path}, but got ${types.length}`
    )
  }
  return calledView
}

function argumentsOf (calledView: FunctionSignature, request: ViewRequest, path: string): EncodedValue[] {
  const given: ReadonlyArray<(type: TypeTag) => Buffer> = 'bytes' in request
    ? request.bytes.map(bytes => () => bytes)
    : request.arguments.map(argument => type => valueBytes(type, argument))
  if (given.length !== calledView.params.length) throw invalidInput(argumentCount(calledView, request, path))
  return given.map((bytesOf, index) => {
    const param = String(calledView.params[index])
    try {
      return valueOf(request.types.find(() => param === 'T0') ?? trustedTypeTag(param), bytesOf)
    } catch (error) {
      throw invalidInput(
        `parse arguments[${index}] failed, expect ${param}, caused by error: ${(error as Error).message}`
      )
    }
  })
}

function argumentCount ({ params }: FunctionSignature, request: ViewRequest, path: string): string {
  if ('bytes' in request) {
    return `wrong number of arguments for ${path}: expected ${params.length}, got ${request.bytes.length}`
  }
  return `expected ${params.length} arguments [${params.join(', ')}], but got ${request.arguments.length} ([${
    request.arguments.map(printJson).join(', ')
  }])`
}

// Decodes JSON arguments from their BCS bytes, so that both request formats behave the same.
function valueOf (type: TypeTag, bytesOf: (type: TypeTag) => Buffer): EncodedValue {
  const reader = new BcsReader(bytesOf(type))
  const value = readValue(type, reader)
  reader.requireEnd()
  return value
}

function bodyOf (format: ResponseFormat, returned: readonly EncodedValue[]): string | Buffer {
  return format === 'json'
    ? `[${returned.map(({ json }) => json).join(',')}]`
    : sequenceBytes(returned.map(({ bytes }) => bytes))
}

/** Function that is called, with its type arguments. */
interface ViewTarget {
  readonly address: Address
  readonly module: string
  readonly name: string
  readonly types: readonly TypeTag[]
}

/** View request; its arguments are JSON values or BCS bytes. */
type ViewRequest = ViewTarget & ({ readonly arguments: readonly Json[] } | { readonly bytes: readonly Buffer[] })

const type = 'ViewRequest'
const bcsType = 'application/x.aptos.view_function+bcs'

/** Parses a view request as the framework does; the returned function checks the rest after the version. */
function readViewRequest (contentType: string | undefined, body: Buffer): () => ViewRequest {
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

/** Input of a view function. */
interface ViewCall {
  readonly ledger: Ledger
  readonly version: bigint
  readonly types: readonly TypeTag[]
  readonly values: readonly EncodedValue[]
}

// Each returns its values, or the message of an abort; any other view function returns its arguments.
const implementations: Readonly<Record<string, (call: ViewCall) => EncodedValue[] | string>> = {
  '0x1::block::get_current_block_height': call => [u64Value(heightOf(call))],
  '0x1::coin::balance': call => [u64Value(balanceOf(call))],
  '0x1::timestamp::now_microseconds': ({ ledger, version }) => {
    const { microseconds } = frameworkResourceAt(ledger, '0x1::timestamp::CurrentTimeMicroseconds', version)
    return [u64Value(BigInt(String(microseconds)))]
  },
  '0xfeed::oracle::height': call => [u64Value(heightOf(call))],
  '0xfeed::oracle::balance_of': call => [u64Value(balanceOf({ ...call, types: [trustedTypeTag(nativeCoinType)] }))],
  '0xfeed::oracle::price_of': priceOf,
  '0xfeed::oracle::at_most_a_hundred': ({ values }) =>
    values.some(({ bytes }) => bytes.readBigUInt64LE() > 100n)
      ? 'Move abort in 0xfeed::oracle: EABOVE_HUNDRED(0x10001): The number is above a hundred.'
      : [...values]
}

/** Returns the gas that a call uses, which depends on the function, its arguments and the epoch. */
function gasUsedBy (path: string, { ledger, version, values }: ViewCall): bigint {
  const { epoch } = frameworkResourceAt(ledger, '0x1::reconfiguration::Configuration', version)
  const size = values.reduce((sum, { bytes }) => sum + bytes.length, 0)
  return BigInt(2 + digestBytes('gas', path).readUInt8() % 5 + Math.ceil(size / 32)) + BigInt(String(epoch)) % 3n
}

function balanceOf ({ ledger, version, types: [coin], values }: ViewCall): bigint {
  const address: Address = Buffer.concat(values.map(({ bytes }) => bytes)).toString('hex', 0, 32)
  return coin?.kind === 'struct' ? balanceAt(ledger, address, coin, version) : 0n
}

// A price changes every ten blocks.
function priceOf (call: ViewCall): EncodedValue[] {
  const { ledger, types, values } = call
  const random = new DigestRandom(
    ledger.seed,
    'price',
    heightOf(call) / 10n,
    ...types.map(printTypeTag),
    ...values.map(({ bytes }) => bytes)
  )
  return [u128Value(BigInt(`0x${random.bytes(12).toString('hex')}`)), boolValue(random.below(2) === 1)]
}

function heightOf ({ ledger, version }: ViewCall): bigint {
  return BigInt(String(frameworkResourceAt(ledger, '0x1::block::BlockResource', version).height))
}
