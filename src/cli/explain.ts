import { stringify } from 'yaml'
import { loadConfig } from '../config/load.js'
import { type Config } from '../config/schema.js'
import { heldMs } from '../proxy/held.js'
import { mediaTypes } from '../api/accept.js'
import {
  blockKeyOf,
  classOf,
  isRendered,
  keysOf,
  momentKeyOf,
  namesStream,
  pageKeyOf,
  pagesOf,
  type Read,
  targetOf,
  wordsOf
} from '../api/read.js'
import { matchEndpoint, readRequest } from '../api/read-request.js'
import { Refusal } from '../api/refusal.js'
import { bodyInWords } from '../api/request-body.js'
import { passedTarget } from '../api/unknown-route.js'
import { type ExitCode, exitCodes, type Io } from '../app/io.js'

/** What a person asks to have explained. */
export interface ExplainedRequest {
  readonly method: string
  readonly target: string
  readonly data: string | undefined
  readonly accept: string | undefined
  readonly config: string | undefined
}

/** What varve would do with a request, as it is printed. */
type Explanation = Readonly<Record<string, string | null>>

/** Says what varve would do with a request, without asking anyone. */
export function explain (request: ExplainedRequest, io: Io): ExitCode {
  const { config } = loadConfig(io.environment, { config: request.config })
  io.out(stringify(explanationOf(request, config), { lineWidth: 0 }))
  return exitCodes.ok
}

function explanationOf (request: ExplainedRequest, config: Config): Explanation {
  const match = matchEndpoint(request.target, request.method)
  const endpoint = match?.endpoint.name ?? 'other'
  try {
    const { contentType, body } = bodyInWords(request.data ?? '')
    if (body.length > config.limits.bodyKb * 1024) {
      throw new Refusal(413, 'web_framework_error', 'the request body is too large')
    }
    if (match === undefined) return passed(passedTarget(request.target, request.method, config.passThrough), request)
    const read = readRequest(match, { method: request.method, accept: request.accept, contentType, body }, config.pages)
    return known(read, config)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return {
      endpoint,
      upstream: null,
      key: null,
      class: 'refused',
      why: `${error.status} ${error.code}: ${error.message}`
    }
  }
}

function known (read: Read, config: Config): Explanation {
  return {
    endpoint: read.endpoint.name,
    upstream: `${read.endpoint.method} ${targetOf(read)}`,
    accept: mediaTypes[read.accept],
    ...(read.body !== undefined && { body: wordsOf(read.body) }),
    ...keyed(read, config),
    class: classOf(read),
    why: whyOf(read, config)
  }
}

function passed (target: string, { method, accept, data }: ExplainedRequest): Explanation {
  return {
    endpoint: 'other',
    upstream: `${method} ${target}`,
    ...(accept !== undefined && { accept }),
    ...(data !== undefined && { body: data }),
    key: null,
    class: 'pass-through',
    why: 'varve does not know this route: passed on as it came, in one attempt, and never kept'
  }
}

// The chain and its generation are learned from the nodes, who are not asked here.
function keyed (read: Read, config: Config): Explanation {
  const chain = { id: config.chainId ?? 'CHAIN', generation: 'GENERATION' }
  const keys = keysOf(read, chain)
  if (keys.blocks !== undefined && read.height === undefined) return { key: blockKeyOf(keys.blocks, 'HEIGHT') }
  // By whichever path it comes, a page is kept under the name of its stream.
  if (read.page !== undefined && !namesStream(read)) {
    return { key: pageKeyOf(pagesOf(chain, '/v1/accounts/ADDRESS/events/CREATION_NUMBER'), read.page) }
  }
  if (classOf(read) !== 'moving') {
    return { key: keys.value, ...(keys.text !== keys.value && { 'key of a not-found': keys.text }) }
  }
  return { key: heldMs(config.latest, read) === 0 ? null : momentKeyOf(keys) }
}

function whyOf (read: Read, config: Config): string {
  const rendered = isRendered(read)
    ? '; its JSON is rendered by the node, so it is read afresh when the node\'s release changes'
    : ''
  return classOf(read) === 'moving'
    ? whyMoving(read, config)
    : `${read.endpoint.why}: ${keptHow(read, config)}${rendered}`
}

function keptHow ({ endpoint: { keyedBy } }: Read, { pages }: Config): string {
  switch (keyedBy) {
    case 'version':
    case 'transaction':
      return 'kept until room is needed'
    case 'block':
    case 'height':
      return 'kept for its height and for every version inside it, once another block follows'
    case 'hash':
      return 'kept once it is committed, of the moment before'
    case 'list':
      return 'kept where the list is full and has no gap, of the moment where it ends with the ledger'
    case 'page':
      return `kept for ${pages.eventsTtlSeconds} s while the page is full and has no gap`
    case 'moment':
      return 'kept for no longer than a moment'
  }
}

function whyMoving (read: Read, config: Config): string {
  const ms = heldMs(config.latest, read)
  const held = ms === 0
    ? 'of the moment: asked for each time, and never older than the question'
    : `of the moment: an answer is given again for ${ms} ms`
  if (read.endpoint.keyedBy === 'version' && config.latest.promote) {
    return `${held}; what it reads is kept under the version that it was read at`
  }
  switch (read.endpoint.keyedBy) {
    case 'page':
      return `${held}; ${
        read.accept === 'bcs' ? 'events in BCS do not say' : 'without a start nobody can say'
      } which page it is`
    case 'list':
    case 'hash':
      return `${held}; ${
        read.accept === 'bcs'
          ? 'in BCS nobody can say for sure which transactions they are'
          : 'without a start they are the newest'
      }`
    case 'version':
    case 'block':
    case 'height':
    case 'transaction':
    case 'moment':
      return held
  }
}
