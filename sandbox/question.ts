import { acceptedForm, type Form } from './accept.js'
import { type Ledger } from './ledger.js'
import { type Spec } from './openapi/piece.js'
import { type Settings } from './options.js'
import { type Position } from './position.js'
import { Problem, versionNotFound, versionPruned } from './problem.js'
import { type Reply, reply } from './reply.js'

/** What the node can see of its chain while it answers one request. */
export interface View {
  readonly ledger: Ledger
  readonly position: Position
}

/** One request, with everything that its answer depends on. */
export interface Question {
  /** The parameters of the path, as they were sent. */
  readonly params: readonly string[]
  readonly query: ReadonlyMap<string, string>
  readonly accept: string | undefined
  readonly contentType: string | undefined
  readonly body: Buffer
  /** How many requests came before. */
  readonly serial: number
  readonly view: View
  readonly settings: Settings
  /** What the node says of itself, where it was asked for that. */
  readonly spec: Spec | undefined
}

/** A parameter of the path; the route has as many as its answer reads. */
export function paramOf (question: Question, index: number): string {
  return String(question.params[index])
}

/** The form that is asked for, where the operator has not switched it off. */
export function formOf (question: Question, operation: string): Form {
  const form = acceptedForm(question.accept)
  const { jsonOutput, bcsOutput } = question.settings
  if (form === 'json' ? jsonOutput : bcsOutput) return form
  throw new Problem(
    'verification',
    'api_disabled',
    `${operation} with ${form.toUpperCase()} output is disabled on this endpoint`
  )
}

/** The version to read: the head's where none is asked for, so that the stamp tells what was read. */
export function readableVersion (view: View, asked: bigint | undefined): bigint {
  const version = asked ?? view.position.version
  if (version > view.position.version) throw versionNotFound(version)
  if (version < view.position.oldestVersion) throw versionPruned(version)
  return version
}

/** The size of a page: never more than the most, and none at all is refused. */
export function pageSize (limit: number | undefined, usual: number, most: number): number {
  if (limit === 0) throw new Problem('ledger', 'invalid_input', 'Given limit value (0) must not be zero')
  return Math.min(limit ?? usual, most)
}

/** A success, stamped with the position. */
export function success (question: Question, form: Form, body: string | Buffer): Reply {
  return reply(200, form, body, { position: question.view.position, family: question.settings.family })
}

/** A success that is not the last page: the cursor is where the next one begins. */
export function withCursor (question: Question, answer: Reply, next: Buffer | undefined): Reply {
  if (next === undefined) return answer
  return { ...answer, headers: [...answer.headers, [`${question.settings.family}cursor`, next.toString('hex')]] }
}
