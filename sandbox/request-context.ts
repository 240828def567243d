import { acceptedFormat, type ResponseFormat } from './response-format.js'
import { type Ledger } from './ledger.js'
import { type SpecFormats } from './openapi/openapi-object.js'
import { type Settings } from './options.js'
import { type Position } from './position.js'
import { Problem, versionNotFound, versionPruned } from './problem.js'
import { type SandboxResponse, makeResponse } from './response.js'

/** What the node can see of its chain while it answers one request. */
export interface LedgerSnapshot {
  readonly ledger: Ledger
  readonly position: Position
}

/** One request, with everything that its answer depends on. */
export interface RequestContext {
  /** The parameters of the path, as they were sent. */
  readonly params: readonly string[]
  readonly query: ReadonlyMap<string, string>
  readonly accept: string | undefined
  readonly contentType: string | undefined
  readonly body: Buffer
  /** How many requests came before. */
  readonly requestIndex: number
  readonly snapshot: LedgerSnapshot
  readonly settings: Settings
  /** What the node says of itself, where it was asked for that. */
  readonly spec: SpecFormats | undefined
}

/** A parameter of the path; the route has as many as its answer reads. */
export function pathParam (context: RequestContext, index: number): string {
  return String(context.params[index])
}

/** The form that is asked for, where the operator has not switched it off. */
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

/** The version to read: the head's where none is asked for, so that the stamp tells what was read. */
export function requireVersion (snapshot: LedgerSnapshot, requested: bigint | undefined): bigint {
  const version = requested ?? snapshot.position.version
  if (version > snapshot.position.version) throw versionNotFound(version)
  if (version < snapshot.position.oldestVersion) throw versionPruned(version)
  return version
}

/** The size of a page: never more than the most, and none at all is refused. */
export function pageSize (limit: number | undefined, defaultSize: number, maxSize: number): number {
  if (limit === 0) throw new Problem('ledger', 'invalid_input', 'Given limit value (0) must not be zero')
  return Math.min(limit ?? defaultSize, maxSize)
}

/** A success, stamped with the position. */
export function successResponse (
  context: RequestContext,
  format: ResponseFormat,
  body: string | Buffer
): SandboxResponse {
  return makeResponse(200, format, body, { position: context.snapshot.position, family: context.settings.family })
}

/** A success that is not the last page: the cursor is where the next one begins. */
export function withCursor (
  context: RequestContext,
  response: SandboxResponse,
  next: Buffer | undefined
): SandboxResponse {
  if (next === undefined) return response
  return { ...response, headers: [...response.headers, [`${context.settings.family}cursor`, next.toString('hex')]] }
}
