import { once } from 'node:events'
import { type IncomingMessage, type ServerResponse } from 'node:http'
import { Refusal } from '../../api/refusal.js'
import { localTarget } from '../../api/unknown-route.js'
import { type Pair } from './form.js'
import { type RecordingFile } from './recording-file.js'
import { Gathered, type Room } from './room.js'
import { linesToKeep, Secrets, secretsOf, targetToKeep } from './secrets.js'
import { type Upstream } from './upstream.js'
import { breakOff, linesOf, writeHead } from './wire.js'

/** What a recorder works with. */
export interface RecorderOptions {
  readonly upstream: Upstream
  /** Where it goes, as soon as that is known. */
  readonly recording: Promise<RecordingFile>
  /** What the node is reached with; what a client brings comes to it with each question. */
  readonly secrets: readonly string[]
  /** How long a body may be that is written. */
  readonly longestBody: number
  readonly room: Room
  /** A clock that never goes back. */
  readonly now: () => number
  /** Told of each question that the node had no answer to. */
  readonly onUnanswered: (what: string, why: string) => void
}

/** A question under way. */
interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly target: string
  readonly sinceMs: number
  readonly sent: Gathered
  readonly secrets: Secrets
}

/** What came of one. */
interface Outcome extends Pick<Pair, 'none' | 'why'> {
  readonly headMs?: number
  readonly answer?: IncomingMessage
  readonly came?: Gathered
  readonly broken?: 'node' | 'client'
}

/** Passes questions on to a node and answers on to who asked, just as they come, and writes both down. */
export class Recorder {
  readonly #options: RecorderOptions
  readonly #beganMs: number
  readonly #underWay = new Set<Promise<void>>()

  constructor (options: RecorderOptions) {
    this.#options = options
    this.#beganMs = options.now()
  }

  /** Takes one question. */
  readonly take = (request: IncomingMessage, response: ServerResponse): void => {
    const passing = this.#pass(request, response).catch(() => {
      request.socket.destroy()
    }).finally(() => {
      this.#underWay.delete(passing)
    })
    this.#underWay.add(passing)
  }

  /** Nothing is under way any more. */
  async idle (): Promise<void> {
    await Promise.all(this.#underWay)
  }

  async #pass (request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { now, longestBody, room, recording } = this.#options
    const file = await recording
    const target = localTarget(String(request.url))
    const lines = linesOf(request)
    const sent = new Gathered(longestBody, room)
    const secrets = new Secrets([...this.#options.secrets, ...secretsOf(lines, target)])
    const exchange = { request, response, target, sinceMs: now(), sent, secrets }
    try {
      const fault = await this.#takeIn(exchange)
      if (fault !== undefined) return refuse(response, fault)
      const outcome = await this.#askFor(exchange)
      file.add(this.#pairOf(exchange, outcome))
      outcome.came?.free()
    } finally {
      sent.free()
    }
  }

  async #takeIn ({ request, target, sent }: Exchange): Promise<Refusal | undefined> {
    if (!target.startsWith('/')) return new Refusal(400, 'invalid_input', 'the request target is no path')
    for await (const chunk of request as AsyncIterable<Buffer>) sent.add(chunk)
    return sent.leftOut === undefined
      ? undefined
      : new Refusal(413, 'web_framework_error', `the request body cannot be passed on: ${sent.leftOut}`)
  }

  async #askFor ({ request, response, target, sinceMs, sent }: Exchange): Promise<Outcome> {
    const { upstream, now, longestBody, room, onUnanswered } = this.#options
    const method = String(request.method)
    const gone = new AbortController()
    response.once('close', () => {
      if (!response.writableFinished) gone.abort()
    })
    let answer
    try {
      answer = await upstream.ask({ method, target, lines: linesOf(request), body: sent.bytes }, gone.signal)
    } catch (error) {
      const why = (error as NodeJS.ErrnoException).code ?? (error as Error).name
      if (gone.signal.aborted) return { none: 'silent' }
      // As the node would have done it: an answer of ours would be taken for one of the node's.
      request.socket.destroy()
      onUnanswered(`${method} ${targetToKeep(target)}`, why)
      return { none: 'lost', why }
    }
    const headMs = now() - sinceMs
    const came = new Gathered(longestBody, room)
    writeHead(response, Number(answer.statusCode), linesOf(answer))
    try {
      for await (const chunk of answer as AsyncIterable<Buffer>) {
        came.add(chunk)
        if (!response.write(chunk)) await once(response, 'drain', { signal: gone.signal })
      }
      response.end()
      return { headMs, answer, came }
    } catch {
      if (!gone.signal.aborted) breakOff(response, linesOf(answer))
      return { headMs, answer, came, broken: gone.signal.aborted ? 'client' : 'node' }
    }
  }

  #pairOf (
    { request, target, sinceMs, sent, secrets }: Exchange,
    { headMs, answer, came, broken, none, why }: Outcome
  ): Pair {
    const lines = linesOf(request)
    return {
      at: inTenths(sinceMs - this.#beganMs),
      ...(headMs !== undefined && { head: inTenths(headMs) }),
      took: inTenths(this.#options.now() - sinceMs),
      request: {
        method: String(request.method),
        target: secrets.out(targetToKeep(target)),
        headers: secrets.outOf(linesToKeep(lines)),
        ...secrets.written(sent.bytes, lines)
      },
      ...(answer !== undefined && came !== undefined && {
        answer: {
          status: Number(answer.statusCode),
          headers: secrets.outOf(linesOf(answer)),
          ...(came.leftOut === undefined
            ? secrets.written(came.bytes, linesOf(answer))
            : { leftOut: `${came.leftOut}: ${came.length}` }),
          ...(broken !== undefined && { broken })
        }
      }),
      ...(none !== undefined && { none }),
      ...(why !== undefined && { why })
    }
  }
}

function refuse (response: ServerResponse, refusal: Refusal): void {
  response.writeHead(refusal.status, { 'content-type': 'application/json', connection: 'close' }).end(refusal.body)
}

function inTenths (ms: number): number {
  return Math.round(ms * 10) / 10
}
