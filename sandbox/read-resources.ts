import { accountExists } from './account-exists.js'
import { lengthBytes, sizedBytes } from './bcs.js'
import { addressParam, cursorQuery, limitQuery, structTagParam, u64Query } from './params.js'
import { resourceNotFound } from './problem.js'
import { formOf, pageSize, paramOf, type Question, readableVersion, success, withCursor } from './question.js'
import { type Reply } from './reply.js'
import { type Resource, resourceAt, resourceJson, resourcesAt } from './resources.js'
import { structTagBytes } from './type-tag-bytes.js'

/** Lists the resources of an account, a page at a time. */
export function readResources (question: Question): Reply {
  const address = addressParam('address', paramOf(question, 0))
  const asked = u64Query(question.query, 'ledger_version')
  const start = cursorQuery(question.query)
  const limit = limitQuery(question.query)
  const form = formOf(question, 'Get account resources')
  const version = readableVersion(question.view, asked)
  accountExists(question, address, version)
  const { resourcesPage } = question.settings
  const size = pageSize(limit, resourcesPage, resourcesPage)
  const rest = resourcesAt(question.view.ledger, address, version).filter(({ key }) =>
    start === undefined || key.compare(start) >= 0
  )
  const page = rest.slice(0, size)
  const body = form === 'json' ? `[${page.map(resourceJson).join(',')}]` : pageBytes(page)
  return withCursor(question, success(question, form, body), rest[size]?.key)
}

/** Fetches one resource of an account, the same as in the listing. */
export function readResource (question: Question): Reply {
  const address = addressParam('address', paramOf(question, 0))
  const tag = structTagParam('resource_type', paramOf(question, 1))
  const asked = u64Query(question.query, 'ledger_version')
  const form = formOf(question, 'Get account resource')
  const version = readableVersion(question.view, asked)
  const resource = resourceAt(question.view.ledger, address, tag, version)
  if (resource === undefined) throw resourceNotFound(address, tag, version)
  return success(question, form, form === 'json' ? resourceJson(resource) : resource.value.bytes)
}

// A map in BCS is ordered by the bytes of its keys.
function pageBytes (page: readonly Resource[]): Buffer {
  const entries = page.map(({ tag, value }) => ({ key: structTagBytes(tag), value: value.bytes })).toSorted((
    one,
    other
  ) => one.key.compare(other.key))
  return Buffer.concat([lengthBytes(entries.length), ...entries.flatMap(({ key, value }) => [key, sizedBytes(value)])])
}
