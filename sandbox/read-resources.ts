import { requireAccount } from './require-account.js'
import { lengthBytes, sizedBytes } from './bcs.js'
import { addressParam, cursorQuery, limitQuery, structTagParam, u64Query } from './params.js'
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
import { type SandboxResponse } from './response.js'
import { type Resource, resourceAt, resourceJson, resourcesAt } from './resources.js'
import { structTagBytes } from './type-tag-bytes.js'

/** Lists one page of the resources of an account. */
export function readResources (context: RequestContext): SandboxResponse {
  const address = addressParam('address', pathParam(context, 0))
  const requestedVersion = u64Query(context.query, 'ledger_version')
  const start = cursorQuery(context.query)
  const limit = limitQuery(context.query)
  const format = requestedFormat(context, 'Get account resources')
  const version = requireVersion(context.snapshot, requestedVersion)
  requireAccount(context, address, version)
  const { resourcesPage } = context.settings
  const size = pageSize(limit, resourcesPage, resourcesPage)
  const rest = resourcesAt(context.snapshot.ledger, address, version).filter(({ key }) =>
    start === undefined || key.compare(start) >= 0
  )
  const page = rest.slice(0, size)
  const body = format === 'json' ? `[${page.map(resourceJson).join(',')}]` : pageBytes(page)
  return withCursor(context, successResponse(context, format, body), rest[size]?.key)
}

/** Reads one resource of an account, in the form of the listing. */
export function readResource (context: RequestContext): SandboxResponse {
  const address = addressParam('address', pathParam(context, 0))
  const tag = structTagParam('resource_type', pathParam(context, 1))
  const requestedVersion = u64Query(context.query, 'ledger_version')
  const format = requestedFormat(context, 'Get account resource')
  const version = requireVersion(context.snapshot, requestedVersion)
  const resource = resourceAt(context.snapshot.ledger, address, tag, version)
  if (resource === undefined) throw resourceNotFound(address, tag, version)
  return successResponse(context, format, format === 'json' ? resourceJson(resource) : resource.value.bytes)
}

// A map in BCS is ordered by the bytes of its keys.
function pageBytes (page: readonly Resource[]): Buffer {
  const entries = page.map(({ tag, value }) => ({ key: structTagBytes(tag), value: value.bytes })).toSorted((
    one,
    other
  ) => one.key.compare(other.key))
  return Buffer.concat([lengthBytes(entries.length), ...entries.flatMap(({ key, value }) => [key, sizedBytes(value)])])
}
