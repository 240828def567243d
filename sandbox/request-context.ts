import { type Address } from './address.js'
import { accountNotFound, notFound, Problem, versionPruned } from './problem.js'
import { resourcesAt } from './state.js'
import { type Ledger } from './ledger.js'
import { type Settings } from './options.js'
import { type Position, type SandboxResponse, makeResponse } from './make-response.js'
import { type TailFault } from './transaction-page-fault.js'

/** Ledger with the position from which one request reads. */
export interface LedgerSnapshot {
  readonly ledger: Ledger
  readonly position: Position
  /** Makes the pages of transactions wrong. */
  readonly tailFault?: TailFault | undefined
}

/** One request with everything that its response depends on. */
export interface RequestContext {
  /** Path parameters, still percent-encoded. */
  readonly params: readonly string[]
  readonly query: ReadonlyMap<string, string>
  readonly accept: string | undefined
  readonly contentType: string | undefined
  readonly body: Buffer
  /** Number of requests before this one. */
  readonly requestIndex: number
  readonly snapshot: LedgerSnapshot
  readonly settings: Settings
}

/** Returns a path parameter; each route declares as many as its handler reads. */
export function pathParam (context: RequestContext, index: number): string {
  return String(context.params[index])
}

/** Returns the requested format; throws if the operator has disabled it. */
export function requestedFormat (context: RequestContext, operation: string): ResponseFormat {
  const format = acceptedFormat(context.accept)
  const { jsonOutput, bcsOutput } = context.settings
  if (format === 'json' ? jsonOutput : bcsOutput) return format
  throw new Problem(
    'verification',
    'api_disabled',
    `${operation} with ${format.toUpperCase()} output is disabled on this endpoint`
  )
}

/** Returns the version to read, by default the stamped one; throws if it is pruned or above the head. */
export function requireVersion (snapshot: LedgerSnapshot, requested: bigint | undefined): bigint {
  const version = requested ?? snapshot.position.version
  if (version > snapshot.position.version) {
    throw notFound('version_not_found', 'Ledger version', `Ledger version(${version})`)
  }
  if (version < snapshot.position.oldestVersion) throw versionPruned(version)
  return version
}

/** Returns the page size, at most `maxSize`; throws for a limit of 0. */
export function pageSize (limit: number | undefined, defaultSize: number, maxSize: number): number {
  if (limit === 0) throw new Problem('ledger', 'invalid_input', 'Given limit value (0) must not be zero')
  return Math.min(limit ?? defaultSize, maxSize)
}

/** Builds a 200 response, stamped with the position. */
export function successResponse (
  context: RequestContext,
  format: ResponseFormat,
  body: string | Buffer
): SandboxResponse {
  return makeResponse(200, format, body, { position: context.snapshot.position, family: context.settings.family })
}

/** Adds the cursor of the next page; the last page has none. */
export function withCursor (
  context: RequestContext,
  response: SandboxResponse,
  next: Buffer | undefined
): SandboxResponse {
  if (next === undefined) return response
  return { ...response, headers: [...response.headers, [`${context.settings.family}cursor`, next.toString('hex')]] }
}

/** The two response formats. */
export type ResponseFormat = 'json' | 'bcs'

/**
 * Chooses the format by the first `Accept` item that is exactly one of the two types. An item with a parameter, such as
 * a weight, never matches.
 */
export function acceptedFormat (accept: string | undefined): ResponseFormat {
  for (const item of (accept ?? '').split(',')) {
    const type = item.trim().toLowerCase()
    if (type === 'application/json') return 'json'
    if (type === 'application/x-bcs') return 'bcs'
  }
  return 'json'
}

/** Throws for an address without account and resources, unless the node treats every address as an account. */
export function requireAccount ({ snapshot, settings }: RequestContext, address: Address, version: bigint): void {
  if (settings.statelessAccounts || resourcesAt(snapshot.ledger, address, version).length > 0) return
  throw accountNotFound(address, version)
}
