import { type Position, positionHeaders } from './position.js'
import { type Problem } from './problem.js'
import { type ErrorBody, type ErrorCode } from './schema/error.js'

/** What is sent: the header `content-length` and the date come with the sending. */
export interface SandboxResponse {
  readonly status: number
  readonly headers: ReadonlyArray<readonly [name: string, value: string]>
  readonly body: Buffer
}

/** The content types of a node's answers; those of its framework name no charset. */
export const contentTypes = {
  json: 'application/json; charset=utf-8',
  bcs: 'application/x-bcs',
  framework: 'application/json'
} as const

/** Which position an answer is stamped with, under which family of names. */
export interface Stamp {
  readonly position: Position
  readonly family: string
}

/** An answer with the position, or without where there is none to tell. */
export function makeResponse (
  status: number,
  type: keyof typeof contentTypes,
  body: string | Buffer,
  stamp?: Stamp
): SandboxResponse {
  return {
    status,
    headers: [
      ['content-type', contentTypes[type]],
      ...stamp === undefined ? [] : positionHeaders(stamp.position, stamp.family)
    ],
    body: Buffer.from(body)
  }
}

/** The error body of the nodes: three members, in this order. */
export function printErrorBody (message: string, code: ErrorCode, vmCode: number | null = null): string {
  return JSON.stringify({ message, error_code: code, vm_error_code: vmCode } satisfies ErrorBody)
}

/** The answer that a problem makes. */
export function problemResponse (problem: Problem, stamp: Stamp): SandboxResponse {
  const type = problem.source === 'framework' ? 'framework' : 'json'
  return makeResponse(
    problem.status,
    type,
    printErrorBody(problem.message, problem.code, problem.vmCode),
    problem.source === 'ledger' ? stamp : undefined
  )
}

/** What the HTTP layer answers when it cannot read a request at all. */
export function emptyResponse (status: number): SandboxResponse {
  return { status, headers: [], body: Buffer.alloc(0) }
}
