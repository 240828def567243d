import { addressBytes, shortAddress } from './address.js'
import { sequenceBytes, sizedBytes, textBytes, u64Bytes } from './bcs.js'
import {
  type ResponseFormat,
  requestedFormat,
  pageSize,
  pathParam,
  type RequestContext,
  requireVersion,
  successResponse,
  withCursor,
  requireAccount
} from './request-context.js'
import { moduleRecord, renderingOf } from './module-abi.js'
import {
  readAddressParam,
  readCursorQuery,
  readIdentifierParam,
  readLimitQuery,
  readU64Query,
  readStructTagParam,
  readAssetParam
} from './params.js'
import { resourceNotFound, accountNotFound, stateNotFound } from './problem.js'
import { moduleAt, modulesAt, resourceAt, resourcesAt, balanceAt } from './state.js'
import { type Module, type TaggedValue } from './write.js'
import { groupBytes } from './kinds/render-write-set.js'
import { printTypeTag, trustedStructTag } from './type-tag.js'
import { defaultAccount } from './resources.js'
import { type SandboxResponse } from './make-response.js'

const accountTag = trustedStructTag('0x1::account::Account')

/** Reads the next sequence number and the authentication key of an account. */
export function readAccount (context: RequestContext): SandboxResponse {
  const address = readAddressParam('address', pathParam(context, 0))
  const requestedVersion = readU64Query(context.query, 'ledger_version')
  const format = requestedFormat(context, 'Get account')
  const version = requireVersion(context.snapshot, requestedVersion)
  const { ledger } = context.snapshot
  const found = resourceAt(ledger, address, accountTag, version)?.value
  if (!context.settings.statelessAccounts && found === undefined) throw accountNotFound(address, version)
  const account = found ?? defaultAccount(ledger, address, version)
  if (format === 'bcs') return successResponse(context, format, account.bytes)
  const members = JSON.parse(account.json) as Record<string, unknown>
  return successResponse(context, format, JSON.stringify(members, ['sequence_number', 'authentication_key']))
}

/** Reads the balance of a coin or a fungible asset: a bare JSON number that can exceed the precision of a double. */
export function readBalance (context: RequestContext): SandboxResponse {
  const address = readAddressParam('address', pathParam(context, 0))
  const asset = readAssetParam('asset_type', pathParam(context, 1))
  const requestedVersion = readU64Query(context.query, 'ledger_version')
  const format = requestedFormat(context, 'Get account balance')
  const version = requireVersion(context.snapshot, requestedVersion)
  const balance = balanceAt(context.snapshot.ledger, address, asset, version)
  return successResponse(context, format, format === 'json' ? String(balance) : u64Bytes(balance))
}

/** Lists one page of the resources of an account. */
export function readResources (context: RequestContext): SandboxResponse {
  const address = readAddressParam('address', pathParam(context, 0))
  const requestedVersion = readU64Query(context.query, 'ledger_version')
  const start = readCursorQuery(context.query)
  const limit = readLimitQuery(context.query)
  const format = requestedFormat(context, 'Get account resources')
  const version = requireVersion(context.snapshot, requestedVersion)
  requireAccount(context, address, version)
  const { resourcesPage } = context.settings
  const size = pageSize(limit, resourcesPage, resourcesPage)
  const rest = resourcesAt(context.snapshot.ledger, address, version).filter(({ key }) =>
    start === undefined || key.compare(start) >= 0
  )
  // Counts keys: the members of a group are never on two pages.
  const page = rest.slice(0, size).flatMap(({ resources }) => resources)
  const body = format === 'json' ? `[${page.map(resourceJson).join(',')}]` : groupBytes(page)
  return withCursor(context, successResponse(context, format, body), rest[size]?.key)
}

/** Reads one resource of an account, in the form of the listing. */
export function readResource (context: RequestContext): SandboxResponse {
  const address = readAddressParam('address', pathParam(context, 0))
  const tag = readStructTagParam('resource_type', pathParam(context, 1))
  const requestedVersion = readU64Query(context.query, 'ledger_version')
  const format = requestedFormat(context, 'Get account resource')
  const version = requireVersion(context.snapshot, requestedVersion)
  const resource = resourceAt(context.snapshot.ledger, address, tag, version)
  if (resource === undefined) throw resourceNotFound(address, tag, version)
  return successResponse(context, format, format === 'json' ? resourceJson(resource) : resource.value.bytes)
}

function resourceJson ({ tag, value }: TaggedValue): string {
  return `{"type":${JSON.stringify(printTypeTag(tag))},"data":${value.json}}`
}

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
  if (module === undefined) {
    const by = `Address(${shortAddress(address)}), Module name(${name})`
    throw stateNotFound('module_not_found', 'Module', by, version)
  }
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
