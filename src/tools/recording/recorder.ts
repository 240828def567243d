import { once } from 'node:events'
import { type IncomingMessage, type ServerResponse } from 'node:http'
import { type ErrorResponse, webFrameworkError, invalidInputError } from '../../api/error-response.js'
import { originFormOf } from '../../api/pass-through-target.js'
import { type RecordedExchange } from './recording-format.js'
import { type RecordingWriter } from './recording-writer.js'
import { GatheredBody, type MemoryLimit } from './gathered-body.js'
import { headersToRecord, SecretRedactor, secretsOfClient, targetToRecord } from './redact-secrets.js'
import { type RelayClient } from './relay-client.js'
import { abortResponse, headerLinesOf, writeVerbatimHead } from './verbatim-head.js'

/** Parts and limits of a recorder. */
export interface RecorderOptions {
  readonly upstream: RelayClient
  /** Creates the recording file, once; runs after the listener opened, so that a port in use costs no file. */
  readonly createFile: () => Promise<RecordingWriter>
  /** Upstream credentials to redact; credentials of clients come from each request. */
  readonly secrets: readonly string[]
  /** Limit per recorded body; longer bodies are left out. */
  readonly maxBodyBytes: number
  readonly memory: MemoryLimit
  /** Monotonic clock in milliseconds. */
  readonly now: () => number
  /** Runs for each request that the upstream did not respond to. */
  readonly onUnreachable: (what: string, why: string) => void
}

/** Request in flight. */
interface PendingExchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly target: string
  readonly startedAtMs: number
  readonly requestBody: GatheredBody
  readonly secrets: SecretRedactor
}

/** Result of a request in flight. */
interface ExchangeOutcome extends Pick<RecordedExchange, 'none' | 'why'> {
  readonly headMs?: number
  readonly response?: IncomingMessage
  readonly responseBody?: GatheredBody
  readonly broken?: 'node' | 'client'
}

/** Forwards requests and responses unchanged and records both. */
export class Recorder {
  readonly #options: RecorderOptions
  readonly #startedAtMs: number
  readonly #inFlight = new Set<Promise<void>>()
  #file: Promise<RecordingWriter> | undefined

  constructor (options: RecorderOptions) {
    this.#options = options
    this.#startedAtMs = options.now()
  }

  /** Returns the recording file, which the first call creates. */
  get file (): Promise<RecordingWriter> {
    this.#file ??= this.#options.createFile()
    return this.#file
  }

  /** Forwards and records one request. */
  readonly record = (request: IncomingMessage, response: ServerResponse): void => {
    const passing = this.#forward(request, response).catch(() => {
      request.socket.destroy()
    }).finally(() => {
      this.#inFlight.delete(passing)
    })
    this.#inFlight.add(passing)
  }

  /** Resolves after all requests in flight have been recorded. */
  async waitUntilIdle (): Promise<void> {
    await Promise.all(this.#inFlight)
  }

  async #forward (request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { now, maxBodyBytes, memory } = this.#options
    const file = await this.file
    const target = originFormOf(String(request.url))
    const lines = headerLinesOf(request)
    const requestBody = new GatheredBody(maxBodyBytes, memory)
    const secrets = new SecretRedactor([...this.#options.secrets, ...secretsOfClient(lines, target)])
    const exchange = { request, response, target, startedAtMs: now(), requestBody, secrets }
    try {
      const fault = await this.#readRequestBody(exchange)
      if (fault !== undefined) return sendRecorderError(response, fault)
      const outcome = await this.#fetch(exchange)
      file.add(this.#exchangeOf(exchange, outcome))
      outcome.responseBody?.release()
    } finally {
      requestBody.release()
    }
  }

  async #readRequestBody ({ request, target, requestBody }: PendingExchange): Promise<ErrorResponse | undefined> {
    if (!target.startsWith('/')) return invalidInputError('the request target is no path')
    for await (const chunk of request as AsyncIterable<Buffer>) requestBody.add(chunk)
    return requestBody.omittedReason === undefined
      ? undefined
      : webFrameworkError(
        413,
        `the request body cannot be passed on: ${requestBody.omittedReason}`
      )
  }

  async #fetch ({ request, response, target, startedAtMs, requestBody }: PendingExchange): Promise<ExchangeOutcome> {
    const { upstream, now, maxBodyBytes, memory, onUnreachable } = this.#options
    const method = String(request.method)
    const gone = new AbortController()
    response.once('close', () => {
      if (!response.writableFinished) gone.abort()
    })
    let fetched
    try {
      fetched = await upstream.fetch(
        { method, target, headers: headerLinesOf(request), body: requestBody.bytes },
        gone.signal
      )
    } catch (error) {
      const why = (error as NodeJS.ErrnoException).code ?? (error as Error).name
      if (gone.signal.aborted) return { none: 'silent' }
      // Closes the connection as the upstream did; an error response of ours would look like an upstream's.
      request.socket.destroy()
      onUnreachable(`${method} ${targetToRecord(target)}`, why)
      return { none: 'lost', why }
    }
    const headMs = now() - startedAtMs
    const responseBody = new GatheredBody(maxBodyBytes, memory)
    writeVerbatimHead(response, Number(fetched.statusCode), headerLinesOf(fetched))
    try {
      for await (const chunk of fetched as AsyncIterable<Buffer>) {
        responseBody.add(chunk)
        if (!response.write(chunk)) await once(response, 'drain', { signal: gone.signal })
      }
      response.end()
      return { headMs, response: fetched, responseBody }
    } catch {
      if (!gone.signal.aborted) abortResponse(response, headerLinesOf(fetched))
      return { headMs, response: fetched, responseBody, broken: gone.signal.aborted ? 'client' : 'node' }
    }
  }

  #exchangeOf (
    { request, target, startedAtMs, requestBody, secrets }: PendingExchange,
    { headMs, response, responseBody, broken, none, why }: ExchangeOutcome
  ): RecordedExchange {
    const lines = headerLinesOf(request)
    return {
      at: roundToTenths(startedAtMs - this.#startedAtMs),
      ...(headMs !== undefined && { head: roundToTenths(headMs) }),
      took: roundToTenths(this.#options.now() - startedAtMs),
      request: {
        method: String(request.method),
        target: secrets.redact(targetToRecord(target)),
        headers: secrets.redactHeaders(headersToRecord(lines)),
        ...secrets.encodeBody(requestBody.bytes, lines)
      },
      ...(response !== undefined && responseBody !== undefined && {
        response: {
          status: Number(response.statusCode),
          headers: secrets.redactHeaders(headerLinesOf(response)),
          ...(responseBody.omittedReason === undefined
            ? secrets.encodeBody(responseBody.bytes, headerLinesOf(response))
            : { leftOut: `${responseBody.omittedReason}: ${responseBody.length}` }),
          ...(broken !== undefined && { broken })
        }
      }),
      ...(none !== undefined && { none }),
      ...(why !== undefined && { why })
    }
  }
}

function sendRecorderError (response: ServerResponse, errorResponse: ErrorResponse): void {
  response.writeHead(errorResponse.status, { 'content-type': 'application/json', connection: 'close' }).end(
    errorResponse.body
  )
}

function roundToTenths (ms: number): number {
  return Math.round(ms * 10) / 10
}
