import { type IncomingMessage, type ServerResponse } from 'node:http'
import { type Test } from 'tap'
import { respondOk, stamps, type StubUpstream, startStubUpstream } from './stub-upstream.js'

/** State of a scripted upstream with event streams; a test may change it at any time. */
export interface EventUpstreamState {
  /** Creation number of the handle's stream; undefined while the handle does not exist. */
  creation: number | undefined
  /** Number of events of each stream. */
  count: number
  /** Maximum number of events in a page. */
  max: number
  release: string
  oldest: number
  head: number
  /** Form in which the account is written. */
  account: string
  /** Promise that delays responses. */
  blockedUntil: Promise<void> | undefined
  /** Returns the version of an event by its number. */
  versionOf: (sequence: number) => number
}

/**
 * An upstream with streams of one account: by handle, which may be destroyed and created again, and by creation number.
 */
export interface EventUpstream extends StubUpstream {
  readonly state: EventUpstreamState
  /** Returns the page that the upstream would respond with. */
  page(start: number, limit: number, creation?: number): string
}

/** Paths of its streams. */
export const handlePath = '/v1/accounts/0x1/events/0x1::a::Holder/events'
export const streamPath = (creation: number): string => `/v1/accounts/0x1/events/${creation}`

/** Starts the upstream. */
export async function startEventUpstream (t: Test, change: Partial<EventUpstreamState> = {}): Promise<EventUpstream> {
  const state: EventUpstreamState = {
    creation: 7,
    count: 500,
    max: 100,
    release: 'aaaa',
    oldest: 0,
    head: 1_000_000,
    account: '0x1',
    blockedUntil: undefined,
    versionOf: sequence => 1000 + sequence * 2,
    ...change
  }
  const stampsNow = (): Record<string, string> =>
    stamps({ 'x-aptos-ledger-version': String(state.head), 'x-aptos-ledger-oldest-version': String(state.oldest) })
  const event = (sequence: number, creation: number): string =>
    `{"version":"${
      state.versionOf(sequence)
    }","guid":{"creation_number":"${creation}","account_address":"${state.account}"},` +
    `"sequence_number":"${sequence}","type":"0x1::a::Event","data":{"text":"],[ \\"${sequence}\\" é","by":"${state.release}","of":${
      '9'.repeat(sequence % 40 + 1)
    }}}`
  const page = (start: number, limit: number, creation = state.creation ?? 0): string => {
    const count = Math.max(0, Math.min(limit, state.max, state.count - start))
    return `[${Array.from({ length: count }, (_, at) => event(start + at, creation)).join()}]`
  }
  const error = (code: string, text: string): string =>
    JSON.stringify({ message: text, error_code: code, vm_error_code: null })
  const respond = (request: IncomingMessage, response: ServerResponse): void => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://node')
    const segments = pathname.split('/')
    const creation = segments.length === 6 ? Number(segments[5]) : state.creation
    const send = (status: number, body: string): void => {
      response.writeHead(status, { 'content-type': 'application/json', ...stampsNow() }).end(body)
    }
    if (!pathname.includes('/events/')) return respondOk(response, '[]', stampsNow())
    if (creation === undefined) return send(404, error('resource_not_found', 'Resource not found'))
    const [limit, start] = [Number(searchParams.get('limit') ?? 25), searchParams.get('start')]
    if (limit === 0) return send(400, error('invalid_input', 'Given limit value (0) must not be zero'))
    const from = start === null ? Math.max(0, state.count - limit) : Number(start)
    if (from < state.count && state.versionOf(from) < state.oldest) return send(410, error('version_pruned', 'pruned'))
    respondOk(response, page(from, limit, creation), stampsNow())
  }
  const upstream = await startStubUpstream(t, (request, response) => {
    if (state.blockedUntil === undefined) respond(request, response)
    else {
      state.blockedUntil.then(() => {
        respond(request, response)
      }, () => {})
    }
  }, (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', ...stampsNow() }).end(
      `{"git_hash":"${state.release}"}`
    )
  })
  return { ...upstream, state, page }
}
