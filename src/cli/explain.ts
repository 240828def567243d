import { stringify } from 'yaml'
import { loadConfig } from '../config/load.js'
import { type Config } from '../config/schema.js'
import { microCacheMs } from '../proxy/micro-cache.js'
import { mediaTypes } from '../api/accept.js'
import {
  intervalKeyOf,
  classOf,
  isRenderedByRelease,
  keysOf,
  microCacheKeyOf,
  type Read,
  targetOf,
  bodyToText
} from '../api/read.js'
import { type KeyedBy } from '../api/endpoints.js'
import { matchAwaited, matchEndpoint, readRequest } from '../api/read-request.js'
import { ErrorResponse, webFrameworkError } from '../api/error-response.js'
import { bodyFromText } from '../api/request-body.js'
import { forwardedTarget } from '../api/pass-through-target.js'
import { type ExitCode, exitCodes, type Io } from '../app/io.js'

/** Request that an operator wants explained. */
export interface ExplainInput {
  readonly method: string
  readonly target: string
  readonly data: string | undefined
  readonly accept: string | undefined
  readonly config: string | undefined
}

/** Printed lines of an explanation. */
type Explanation = Readonly<Record<string, string | readonly string[] | null>>

/** Explains the handling of a request without contacting an upstream. */
export function explain (request: ExplainInput, io: Io): ExitCode {
  const { config } = loadConfig(io.environment, { config: request.config })
  io.out(stringify(explanationOf(request, config), { lineWidth: 0 }))
  return exitCodes.ok
}

function explanationOf (request: ExplainInput, config: Config): Explanation {
  const match = matchEndpoint(request.target, request.method) ??
    (config.follow.mode === 'on' ? matchAwaited(request.target, request.method) : undefined)
  const endpoint = match?.endpoint.name ?? 'other'
  try {
    const { contentType, body } = bodyFromText(request.data ?? '')
    if (body.length > config.limits.bodyKb * 1024) {
      throw webFrameworkError(413, 'the request body is too large')
    }
    if (match === undefined) {
      return explainPassThrough(forwardedTarget(request.target, request.method, config.passThrough), request)
    }
    const read = readRequest(match, { method: request.method, accept: request.accept, contentType, body })
    return explainRead(read, config)
  } catch (error) {
    if (!(error instanceof ErrorResponse)) throw error
    return {
      endpoint,
      upstream: null,
      key: null,
      class: 'refused',
      why: `${error.status} ${error.code}: ${error.message}`
    }
  }
}

function explainRead (read: Read, config: Config): Explanation {
  const dependencies = read.endpoint.dependsOn?.(read)
  return {
    endpoint: read.endpoint.name,
    upstream: `${read.endpoint.method} ${targetOf(read)}`,
    accept: mediaTypes[read.accept],
    ...(read.body !== undefined && { body: bodyToText(read.body) }),
    ...explainKey(read, config),
    class: classOf(read),
    why: reasonFor(read, config),
    // Keys that a change must touch to end the interval of a followed response.
    ...(dependencies !== undefined && { 'depends on': dependencies.map(({ name }) => name) })
  }
}

function explainPassThrough (target: string, { method, accept, data }: ExplainInput): Explanation {
  return {
    endpoint: 'other',
    upstream: `${method} ${target}`,
    ...(accept !== undefined && { accept }),
    ...(data !== undefined && { body: data }),
    key: null,
    class: 'pass-through',
    why: 'varve does not know this route: it forwards the request unchanged, once, and never caches it'
  }
}

// The space comes from upstreams, which this command does not contact, so a placeholder replaces it.
function explainKey (read: Read, config: Config): Explanation {
  const space = { name: 'SPACE' }
  const keys = keysOf(read, space)
  if (keys.intervalFamily !== undefined && read.height === undefined) {
    return { key: intervalKeyOf(keys.intervalFamily, 'HEIGHT') }
  }
  if (classOf(read) !== 'moving') {
    return { key: keys.value, ...(keys.text !== keys.value && { 'key of a not-found': keys.text }) }
  }
  return { key: microCacheMs(config.latest, read) === 0 ? null : microCacheKeyOf(keys) }
}

function reasonFor (read: Read, config: Config): string {
  const rendered = isRenderedByRelease(read)
    ? '; its JSON is rendered by the node, so it is refreshed when the node\'s release changes'
    : ''
  return classOf(read) === 'moving'
    ? reasonForMoving(read, config)
    : `${read.endpoint.why}: ${lifetimeText(read, config)}${rendered}`
}

function lifetimeText ({ endpoint: { keyedBy } }: Read, { pages }: Config): string {
  const ofBlock = 'stored for its height and for every version inside it, once another block follows'
  const texts: Readonly<Record<KeyedBy, string>> = {
    version: 'stored until evicted',
    transaction: 'stored until evicted',
    block: ofBlock,
    height: ofBlock,
    hash: 'stored once it is committed, moving before',
    list: 'stored where the list is full and has no gap, moving where it ends with the ledger',
    page: `stored for ${pages.eventsTtlSeconds} s while the page is full and has no gap`,
    sends: 'stored while the page is full and has no gap',
    summaries: 'stored while the page is full, or its range ends below the head',
    auxiliary: 'stored while the page is full and ends below the head',
    moving: 'never stored'
  }
  return texts[keyedBy]
}

function reasonForFollowed ({ endpoint: { dependsOn } }: Read, maxAgeMs: number): string {
  const head = `the followed head, at most ${maxAgeMs} ms before the request`
  return dependsOn === undefined
    ? `moving: fetched once at ${head}`
    : `moving: served at ${head}; fetched there if a change touched what it depends on, or if that is unknown`
}

function reasonForMoving (read: Read, config: Config): string {
  const { mode, maxAgeMs } = config.follow
  const { keyedBy } = read.endpoint
  if (mode === 'on' && maxAgeMs > 0 && keyedBy === 'version') return reasonForFollowed(read, maxAgeMs)
  const ms = microCacheMs(config.latest, read)
  const microCacheText = ms === 0
    ? 'moving: fetched each time, and never older than the request'
    : `moving: a response is reused for ${ms} ms`
  if (keyedBy === 'version' && config.latest.promote) {
    return `${microCacheText}; what it reads is stored under the version of the response`
  }
  const isBcs = read.accept === 'bcs'
  if (keyedBy === 'page') {
    return `${microCacheText}; ${isBcs ? 'events in BCS do not say' : 'without a start it is unknown'} which page it is`
  }
  if (['list', 'hash', 'sends', 'summaries', 'auxiliary'].includes(keyedBy)) {
    const why = isBcs ? 'in BCS the transactions cannot be identified for sure' : 'without a start they are the newest'
    return `${microCacheText}; ${why}`
  }
  return microCacheText
}
