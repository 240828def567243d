import { type ResponseFormat } from './response-format.js'
import { longAddress, shortAddress } from './address.js'
import { sequenceBytes } from './bcs.js'
import { BcsReader } from './bcs-reader.js'
import { type EncodedValue } from './encoded-value.js'
import { printJson } from './json-printer.js'
import { valueBytes } from './value-bytes.js'
import { readU64Query } from './params.js'
import { invalidInput, Problem } from './problem.js'
import {
  requestedFormat,
  type RequestContext,
  requireVersion,
  successResponse,
  type LedgerSnapshot
} from './request-context.js'
import { type SandboxResponse } from './make-response.js'
import { moduleAt } from './state.js'
import { trustedTypeTag, type TypeTag } from './type-tag.js'
import { readValue } from './bcs-value-reader.js'
import { gasUsedBy, type ViewFunction, findViewFunction } from './view-functions.js'
import { readViewRequest, type ViewRequest } from './view-request.js'

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
  const returned = calledView.run(call)
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
): ViewFunction {
  const { address, module, name, types } = request
  if (moduleAt(ledger, address, module, version) === undefined) {
    throw invalidInput(
      `Module ModuleId { address: ${longAddress(address).slice(2)}, name: Identifier("${module}") } can't be found`
    )
  }
  const calledView = findViewFunction(shortAddress(address), module, name)
  if (calledView === undefined) throw invalidInput(`could not find view function by ${path}`)
  if (types.length !== calledView.typeParameterCount) {
    throw invalidInput(
      `expected ${calledView.typeParameterCount} type arguments for view function ${path}, but got ${types.length}`
    )
  }
  return calledView
}

function argumentsOf (calledView: ViewFunction, request: ViewRequest, path: string): EncodedValue[] {
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

function argumentCount ({ params }: ViewFunction, request: ViewRequest, path: string): string {
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
