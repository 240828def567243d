import { addressBytes } from './address.js'
import { sequenceBytes, sizedBytes, textBytes } from './bcs.js'
import { type ResponseFormat } from './response-format.js'
import { moduleRecord } from './module-abi.js'
import { readAddressParam, readCursorQuery, readIdentifierParam, readLimitQuery, readU64Query } from './params.js'
import { moduleNotFound } from './problem.js'
import {
  requestedFormat,
  pageSize,
  pathParam,
  type RequestContext,
  requireVersion,
  successResponse,
  withCursor
} from './request-context.js'
import { renderingOf } from './release.js'
import { type SandboxResponse } from './make-response.js'
import { moduleAt, modulesAt } from './state.js'
import { type Module } from './write.js'

/** Lists one page of the modules of an account. */
export function readModules (context: RequestContext): SandboxResponse {
  const address = readAddressParam('address', pathParam(context, 0))
  const requestedVersion = readU64Query(context.query, 'ledger_version')
  const start = readCursorQuery(context.query)
  const limit = readLimitQuery(context.query)
  const format = requestedFormat(context, 'Get account modules')
  const version = requireVersion(context.snapshot, requestedVersion)
  const { modulesPage } = context.settings
  const size = pageSize(limit, modulesPage, modulesPage)
  const { ledger } = context.snapshot
  const rest = modulesAt(ledger, address, version).filter(({ key }) => start === undefined || key.compare(start) >= 0)
  const response = successResponse(context, format, pageBody(format, rest.slice(0, size), ledger.release))
  return withCursor(context, response, rest[size]?.key)
}

/** Reads one module of an account, in the form of the listing. */
export function readModule (context: RequestContext): SandboxResponse {
  const address = readAddressParam('address', pathParam(context, 0))
  const name = readIdentifierParam('module_name', pathParam(context, 1))
  const requestedVersion = readU64Query(context.query, 'ledger_version')
  const format = requestedFormat(context, 'Get account module')
  const version = requireVersion(context.snapshot, requestedVersion)
  const { ledger } = context.snapshot
  const module = moduleAt(ledger, address, name, version)
  if (module === undefined) throw moduleNotFound(address, name, version)
  return successResponse(
    context,
    format,
    format === 'json' ? JSON.stringify(moduleRecord(module, renderingOf(ledger.release))) : module.bytecode
  )
}

function pageBody (format: ResponseFormat, page: Module[], release: string): string | Buffer {
  if (format === 'json') return JSON.stringify(page.map(module => moduleRecord(module, renderingOf(release))))
  // Nodes cut the page in the order of state keys but serialise it as a map ordered by name.
  const byName = page.toSorted((a, b) => a.name < b.name ? -1 : 1)
  return sequenceBytes(
    byName.map(({ address, name, bytecode }) =>
      Buffer.concat([addressBytes(address), textBytes(name), sizedBytes(bytecode)])
    )
  )
}
