import { type Test } from 'tap'
import { SeededRandom } from '../model/seeded-random.js'
import { respondOk, startStubUpstream } from '../stub-upstream.js'
import { type ConfigChange, type TestVarve, varveAt } from '../varve.js'
import { until } from '../until.js'
import { type WireStep, countParsedRequests, runWireSession } from './wire-session.js'

/** Sizes in bytes of the bodies that the upstream of the twins has, by the account in the target. */
export const bodySizes = [2, 600, 16_384, 16_385, 70_000, 140_000] as const

/** Returns the target of a body with that size. */
export function targetOfSize (bytes: number): string {
  return `/v1/accounts/0x${bytes.toString(16)}/modules?ledger_version=500`
}

/** Two varves with and without the fast path, in front of the same upstream. */
export interface Twins {
  readonly fast: TestVarve
  readonly plain: TestVarve
  /** Numbers of requests that Node has parsed for each. */
  parsed(): { readonly fast: number, readonly plain: number }
  /** Runs the same session at both; returns what each client received. */
  run(steps: readonly WireStep[]): Promise<{ readonly fast: string, readonly plain: string }>
  /** Returns the counters and the access log of each, without times. */
  records(): Promise<{ readonly fast: unknown, readonly plain: unknown }>
}

/** Starts twins and warms every form of every body. */
export async function startTwins (t: Test, change: ConfigChange = {}): Promise<Twins> {
  const upstream = await startStubUpstream(t, (request, response) => {
    request.resume()
    const bytes = Number.parseInt(/accounts\/0x([0-9a-f]+)/.exec(request.url ?? '')?.[1] ?? '2', 16)
    const body = JSON.stringify(`${'abcdefgh'.repeat(bytes / 8 + 1)}`.slice(0, bytes - 2))
    // An access line has the length of a forwarded body if it is known before, or if all of it comes at once.
    respondOk(response, body, { 'content-length': String(body.length) })
  })
  const start = async (fastPath: boolean): Promise<TestVarve> => {
    // Never expires what the micro-cache holds, so that both answer alike at any speed.
    return await varveAt(t, upstream.url, {
      log: { access: true },
      latest: { infoMs: 3_600_000, indexMs: 3_600_000, gasMs: 3_600_000 },
      ...change,
      http: { fastPath }
    })
  }
  const twins = { fast: await start(true), plain: await start(false) }
  const parsedBy = countParsedRequests(t)
  return {
    ...twins,
    parsed: () => ({ fast: parsedBy(twins.fast.url), plain: parsedBy(twins.plain.url) }),
    run: async steps => {
      const [fast, plain] = await Promise.all(
        [twins.fast, twins.plain].map(async ({ url }) =>
          // Excludes seconds that pass between the two.
          (await runWireSession(url, steps)).replaceAll(/^retry-after: .*\r\n/gm, '')
        )
      )
      return { fast: fast ?? '', plain: plain ?? '' }
    },
    records: async () => ({ fast: await recordsOf(twins.fast), plain: await recordsOf(twins.plain) })
  }
}

/** Has a body compressed at both, which varve does in the background, by as many requests at any speed. */
export async function warmGzip (twins: Twins, target: string): Promise<void> {
  const request = `GET ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n`
  const cachedBytes = async (): Promise<number[]> =>
    await Promise.all(
      [twins.fast, twins.plain].map(async varve => await varve.metric('varve_cache_bytes{tier="memory"}') ?? NaN)
    )
  await twins.run([{ send: `${request}\r\n` }])
  const plain = await cachedBytes()
  await twins.run([{ send: `${request}Accept-Encoding: gzip\r\n\r\n` }])
  await until(async () => (await cachedBytes()).every((bytes, at) => bytes > (plain[at] ?? NaN)), `${target} in gzip`)
}

const comparedSeries =
  /^varve_(?:requests_total|request_duration_seconds_count|client_requests_total|limited_total|reads_saved_total|pruned_requests_total|upstream_requests_total|cache_entries|cache_bytes|cache_writes_total|not_stored_total|connections_cut_total|audit_total|unhandled_total)\b/

async function recordsOf ({ metrics, log }: TestVarve): Promise<unknown> {
  return {
    counters: (await metrics.registry.metrics()).split('\n').filter(line =>
      // Excludes reads of varve's own, which come at their own times.
      comparedSeries.test(line) && !line.startsWith('varve_upstream_requests_total{upstream="node",endpoint="other"')
    ),
    accessLog: log.filter(({ msg }) => msg === 'request completed').map(line => ({
      ...line,
      id: '',
      // Streams, or arrives whole.
      ...(line['outcome'] === 'forwarded' && { bytes: 0 }),
      time: 0,
      tookMs: 0
    }))
  }
}

/** Returns the next random number from 0 to 1. */
export type Draw = () => number

/** Returns a repeatable source of random numbers. */
export function drawFrom (seed: number): Draw {
  const random = new SeededRandom(seed)
  return () => random.next()
}

const lastRequest = 'GET /-/healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'

// Lines that differ from request to request, as proxies and tracers send them; `#` becomes one of three values.
const variedLines = [
  'X-Forwarded-For: 203.0.113.#',
  'x-forwarded-for: 198.51.100.7, 203.0.113.#',
  'X-Request-Id: id-#',
  'traceparent: 00-0af7651916cd43dd8448eb211c8031#c-b7ad6b716920333#-01',
  'User-Agent: agent #',
  'USER-AGENT:#'
]
// Lines that look like those, yet can mean something else.
const forgedLines = [
  'X-Request-Id: #\r\n continued',
  'X-Request-Id: #\r\n\tOrigin: https://evil.example',
  'X-Request-Id: #\r\nIf-None-Match: *',
  'User-Agent: #\xe9',
  'X-Forwarded-For: 203.0.113.#\r\nX-Forwarded-For: 192.0.2.#',
  'X-Request-Id: a\r\nX-Request-Id: #',
  'X-User-Agent: #',
  'User-Agent: #\r\nContent-Length: 0'
]
// Ends its connection. Whether a response to a POST in the same chunk comes before the error is a matter of time.
const malformedLines = [
  'User-Agent: #\nOrigin: https://evil.example',
  'User-Agent: #\rIf-None-Match: *',
  'User-Agent: #\x01',
  'User-Agent: #\0',
  'User-Agent : #',
  'User-Agent'
]

/** Adds lines to a request that a varve may leave out of what it compares, and some that it may not. */
export function withVariedLines (draw: Draw, request: string, isAlone: boolean): string {
  let text = request
  while (draw() < 0.5) {
    const kind = draw()
    const lines = kind < 0.85 ? variedLines : isAlone && kind > 0.95 ? malformedLines : forgedLines
    const line = any(draw, lines).replaceAll('#', String(Math.floor(draw() * 3)))
    // Takes the place of a line of its name, except at times: repeated lines are never known.
    const [name = ''] = line.split(/ ?:/, 1)
    if (draw() < 0.9) text = text.replace(new RegExp(`\\r\\n${name}:[^\\r\\n]*`, 'gi'), '')
    const place = draw() < 0.7 ? /\r\n(?=\r\n)/ : /\r\n/
    text = text.replace(place, `\r\n${line}\r\n`)
  }
  return text
}

type Vary = typeof withVariedLines

const unvaried: Vary = (_draw, request) => request

function any (draw: Draw, from: readonly string[]): string {
  return from[Math.floor(draw() * from.length)] ?? ''
}

/** Draws the steps of one connection: requests that are kept apart, split, pipelined, half-closed or reset. */
export function drawSession (draw: Draw, requests: readonly string[], vary = unvaried): WireStep[] {
  const steps: WireStep[] = []
  let responses = 0
  for (let left = 1 + Math.floor(draw() * 10); left > 0; left--) {
    const batch = draw() < 0.85 ? 1 : 2 + Math.floor(draw() * 3)
    const sent = Array.from({ length: batch }, () => vary(draw, any(draw, requests), batch === 1))
    steps.push(...piecesOf(draw, sent.join('')).map(send => ({ send })))
    // Sends the next batch early at times.
    responses += batch
    if (draw() < 0.9) steps.push({ responses })
  }
  const end = draw()
  if (end < 0.15) return [...steps, { responses }, { send: 'GET /v1/acc' }, 'reset']
  if (end < 0.4) return [...steps, 'end']
  return [...steps, { send: lastRequest }]
}

function piecesOf (draw: Draw, text: string): string[] {
  if (draw() < 0.8) return [text]
  const cuts = Array.from({ length: 1 + Math.floor(draw() * 2) }, () => Math.floor(draw() * text.length)).sort((a, b) =>
    a - b
  )
  return [...cuts, text.length].map((cut, at) => text.slice(at === 0 ? 0 : cuts[at - 1], cut)).filter(piece =>
    piece !== ''
  )
}

interface Piecemeal {
  readonly pieces: readonly string[]
  readonly responses: number
}

/**
 * Draws an attack on a varve that remembers bytes: pieces that look like whole known requests, yet continue another
 * one. Honest requests of the same connection stand between.
 */
export function drawStream (
  draw: Draw,
  gets: readonly string[],
  posts: readonly string[],
  vary = unvaried
): WireStep[] {
  const steps: WireStep[] = []
  let responses = 0
  for (let left = 1 + Math.floor(draw() * 6); left > 0; left--) {
    const drawn = drawPieces(draw, gets, posts, vary)
    for (const send of drawn.pieces) if (send !== '') steps.push({ send })
    steps.push({ responses: responses += drawn.responses })
  }
  return [...steps, 'end']
}

function drawPieces (draw: Draw, gets: readonly string[], posts: readonly string[], vary: Vary): Piecemeal {
  const known = vary(draw, any(draw, draw() < 0.7 ? gets : posts), false)
  // Lets a second request follow the piece at times.
  const tail = draw() < 0.4 ? any(draw, gets) : ''
  const tails = tail === '' ? 0 : 1
  const end = '\r\n\r\n'
  // Drops Host at times, which the piece has too.
  const carrier = any(draw, gets).slice(0, -end.length).replace(draw() < 0.7 ? /Host: .*\r\n/ : /^$/, '')
  const [postHead = '', body = ''] = any(draw, posts).split(/(?<=\r\n\r\n)/)
  const cut = Math.floor(draw() * (body.length + 1))
  switch (Math.floor(draw() * 8)) {
    case 0:
      return { pieces: [carrier + any(draw, ['\r\nX: ', '\r\nX:', '\r\n', '\r']), known + tail], responses: 1 + tails }
    case 1:
      return { pieces: [postHead + body.slice(0, cut), body.slice(cut) + known + tail], responses: 2 + tails }
    case 2:
      return { pieces: [`${carrier}\r\nContent-Length: ${known.length}${end}`, known + tail], responses: 1 + tails }
    case 3: {
      const size = known.length.toString(16)
      const head = `${carrier}\r\nTransfer-Encoding: chunked${end}`
      return { pieces: [head, `${size}\r\n`, known, `\r\n0${end}${tail}`], responses: 1 + tails }
    }
    case 4:
      return { pieces: [any(draw, ['\r\n', '\n', '\r\n\r\n']), known + tail], responses: 1 + tails }
    case 5: {
      const at = Math.floor(draw() * known.length)
      return { pieces: [known.slice(0, at), known.slice(at) + tail], responses: 1 + tails }
    }
    default:
      return { pieces: [known + tail], responses: 1 + tails }
  }
}
