import { type Form } from './accept.js'
import { longAddress, shortAddress } from './address.js'
import { sequenceBytes } from './bcs.js'
import { BcsReader } from './bcs-reader.js'
import { type DrawnValue } from './drawn-value.js'
import { printJson } from './json-printer.js'
import { valueBytes } from './key-bytes.js'
import { moduleAt } from './modules.js'
import { u64Query } from './params.js'
import { invalidInput, Problem } from './problem.js'
import { formOf, type Question, readableVersion, success, type View } from './question.js'
import { type Reply } from './reply.js'
import { knownType, type TypeTag } from './type-tag.js'
import { readValue } from './value-reader.js'
import { gasOf, type ViewFunction, viewFunction } from './view-functions.js'
import { readViewRequest, type ViewRequest } from './view-request.js'

/** Calls a view function at a version; the answer is a list of what it returns, with what the call cost. */
export function readView (question: Question): Reply {
  const read = readViewRequest(question.contentType, question.body)
  const asked = u64Query(question.query, 'ledger_version')
  const form = formOf(question, 'View function')
  const version = readableVersion(question.view, asked)
  const request = read()
  const path = `${shortAddress(request.address)}::${request.module}::${request.name}`
  const called = calledFunction(question.view, request, path, version)
  const call = {
    ledger: question.view.ledger,
    version,
    types: request.types,
    values: argumentsOf(called, request, path)
  }
  const returned = called.run(call)
  if (typeof returned === 'string') throw new Problem('ledger', 'invalid_input', returned, 400, 4016)
  const answer = success(question, form, bodyOf(form, returned))
  return { ...answer, headers: [...answer.headers, [`${question.settings.family}gas-used`, String(gasOf(path, call))]] }
}

function calledFunction ({ ledger }: View, request: ViewRequest, path: string, version: bigint): ViewFunction {
  const { address, module, name, types } = request
  if (moduleAt(ledger, address, module, version) === undefined) {
    throw invalidInput(
      `Module ModuleId { address: ${longAddress(address).slice(2)}, name: Identifier("${module}") } can't be found`
    )
  }
  const called = viewFunction(shortAddress(address), module, name)
  if (called === undefined) throw invalidInput(`could not find view function by ${path}`)
  if (types.length !== called.types) {
    throw invalidInput(`expected ${called.types} type arguments for view function ${path}, but got ${types.length}`)
  }
  return called
}

function argumentsOf (called: ViewFunction, request: ViewRequest, path: string): DrawnValue[] {
  const given: ReadonlyArray<(type: TypeTag) => Buffer> = 'bytes' in request
    ? request.bytes.map(bytes => () => bytes)
    : request.arguments.map(argument => type => valueBytes(type, argument))
  if (given.length !== called.params.length) throw invalidInput(argumentCount(called, request, path))
  return given.map((bytesOf, index) => {
    const param = String(called.params[index])
    try {
      return valueOf(request.types.find(() => param === 'T0') ?? knownType(param), bytesOf)
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

// What came as JSON is read back from its bytes, so that both forms of a request say the same.
function valueOf (type: TypeTag, bytesOf: (type: TypeTag) => Buffer): DrawnValue {
  const reader = new BcsReader(bytesOf(type))
  const value = readValue(type, reader)
  reader.end()
  return value
}

function bodyOf (form: Form, returned: readonly DrawnValue[]): string | Buffer {
  return form === 'json'
    ? `[${returned.map(({ json }) => json).join(',')}]`
    : sequenceBytes(returned.map(({ bytes }) => bytes))
}
