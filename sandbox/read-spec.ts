import { type Spec } from './openapi/piece.js'
import { framework } from './problem.js'
import { type Question } from './question.js'
import { type Reply } from './reply.js'

/** The node's OpenAPI document for people, as JSON, and as YAML: whatever form is asked for, and without a position. */
export const readSpec = {
  page: (question: Question): Reply => specReply(question, 'page', ['content-type', 'text/html; charset=utf-8']),
  json: (question: Question): Reply => specReply(question, 'json', ['content-type', 'application/json']),
  yaml: (question: Question): Reply =>
    specReply(question, 'yaml', ['content-type', 'application/x-yaml'], [
      'content-disposition',
      'inline; filename="spec.yaml"'
    ])
}

function specReply ({ spec }: Question, form: keyof Spec, ...headers: Reply['headers']): Reply {
  // Whoever answers without a server has none.
  if (spec === undefined) throw framework('not found', 404)
  return { status: 200, headers, body: Buffer.from(spec[form]()) }
}
