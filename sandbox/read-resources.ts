import { requireAccount } from './require-account.js'
import { readAddressParam, readCursorQuery, readLimitQuery, readStructTagParam, readU64Query } from './params.js'
import { resourceNotFound } from './problem.js'
import {
  requestedFormat,
  pageSize,
  pathParam,
  type RequestContext,
  requireVersion,
  successResponse,
  withCursor
} from './request-context.js'
import { type SandboxResponse } from './make-response.js'
import { groupBytes } from './kinds/render-write-set.js'
import { resourceAt, resourcesAt } from './state.js'
import { printTypeTag } from './type-tag.js'
import { type TaggedValue } from './write.js'

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
