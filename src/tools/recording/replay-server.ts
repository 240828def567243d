import { type IncomingMessage, type ServerResponse } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { webFrameworkError } from '../../api/error-response.js'
import { originFormOf } from '../../api/pass-through-target.js'
import { decodeBody, decompressBody } from './recorded-body.js'
import { type HeaderLines, type RecordedExchange, type RecordedResponse } from './recording-format.js'
import { type RecordedRequest } from './request-match-keys.js'
import { targetToRecord } from './redact-secrets.js'
import { type RecordedResponses } from './recorded-responses.js'
import { abortResponse, hasBody, headerLinesOf, firstHeaderValue, writeVerbatimHead } from './verbatim-head.js'

/** Parts of a replay server. */
export interface ReplayServerOptions {
  readonly responses: RecordedResponses
  /** True replays the recorded response times. */
  readonly isTimed: boolean
  /** Runs for each request without a recorded response. */
  readonly onMissing: (what: string, why: string) => void
}

const maxBodyBytes = 64 * 1024 * 1024

/** Server that replays recorded responses. */
export class ReplayServer {
  readonly #options: ReplayServerOptions
  #answered = 0
  #missing = 0

  constructor (options: ReplayServerOptions) {
    this.#options = options
  }

  /** Number of requests with a recorded response. */
  get answered (): number {
    return this.#answered
  }

  /** Number of requests without a recorded response. */
  get missing (): number {
    return this.#missing
  }

  /** Responds to one request. */
  async respond (request: IncomingMessage, response: ServerResponse): Promise<void> {
    const recordedRequest = await readIncomingRequest(request)
    const exchange = this.#options.responses.find(recordedRequest)
    if (exchange === undefined) return this.#sendMissing(response, recordedRequest, 'it is not in the recording')
    const { response: recorded, none } = exchange
    if (recorded?.leftOut !== undefined) {
      return this.#sendMissing(
        response,
        recordedRequest,
        `its response was left out of the recording: ${recorded.leftOut}`
      )
    }
    this.#answered++
    // The recorded upstream sent nothing, so the client's own timeout ends this request.
    if (none === 'silent') return
    await this.#waitAsRecorded(exchange.head ?? exchange.took, response)
    if (recorded === undefined) request.socket.destroy()
    else await this.#sendRecorded(recorded, exchange, recordedRequest, response)
  }

  async #sendRecorded (
    recorded: RecordedResponse,
    exchange: RecordedExchange,
    { headers }: RecordedRequest,
    response: ServerResponse
  ): Promise<void> {
    const { status, lines, body } = decodeFor(recorded, headers)
    const isWhole = recorded.broken === undefined
    writeVerbatimHead(
      response,
      status,
      isWhole && hasBody(response.req.method, status) ? withContentLength(lines, body.length) : lines
    )
    if (!isWhole) response.write(body)
    await this.#waitAsRecorded(exchange.took - (exchange.head ?? 0), response)
    if (isWhole) response.end(body)
    else abortResponse(response, lines)
  }

  #sendMissing (response: ServerResponse, { method, target }: RecordedRequest, why: string): void {
    this.#missing++
    const what = `${method} ${targetToRecord(target)}`
    this.#options.onMissing(what, why)
    const { status, body } = webFrameworkError(404, `varve replay cannot answer ${what}: ${why}`)
    response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }).end(
      body
    )
  }

  async #waitAsRecorded (ms: number, response: ServerResponse): Promise<void> {
    if (!this.#options.isTimed || ms <= 0) return
    const gone = new AbortController()
    const leave = (): void => {
      gone.abort()
    }
    response.once('close', leave)
    await pause(ms, undefined, { signal: gone.signal }).catch(() => {})
    response.off('close', leave)
  }
}

async function readIncomingRequest (request: IncomingMessage): Promise<RecordedRequest> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    length += chunk.length
    // Bodies above the limit are never recorded, so they cannot match.
    if (length <= maxBodyBytes) chunks.push(chunk)
  }
  return {
    method: String(request.method),
    target: originFormOf(String(request.url)),
    headers: headerLinesOf(request),
    body: Buffer.concat(chunks)
  }
}

interface DecodedResponse {
  readonly status: number
  readonly lines: HeaderLines
  readonly body: Buffer
}

/** Decompresses a recorded response for a client that does not accept its coding. */
function decodeFor (recorded: RecordedResponse, headers: HeaderLines): DecodedResponse {
  const { status, headers: lines } = recorded
  const body = decodeBody(recorded)
  const coding = firstHeaderValue(lines, 'content-encoding')
  if (
    coding === undefined ||
    (firstHeaderValue(headers, 'accept-encoding') ?? '').toLowerCase().includes(coding.toLowerCase())
  ) return { status, lines, body }
  const plain = decompressBody(body, coding, maxBodyBytes)
  return plain === undefined
    ? { status, lines, body }
    : { status, lines: lines.filter(([name]) => name.toLowerCase() !== 'content-encoding'), body: plain }
}

// Recordings can be edited by hand, so the length is computed again.
function withContentLength (lines: HeaderLines, length: number): HeaderLines {
  return lines.map(([name, value]) => [name, name.toLowerCase() === 'content-length' ? String(length) : value])
}
