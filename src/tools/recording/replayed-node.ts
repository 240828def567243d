import { type IncomingMessage, type ServerResponse } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { Refusal } from '../../api/refusal.js'
import { localTarget } from '../../api/unknown-route.js'
import { bytesOf, decoded } from './bytes.js'
import { type Lines, type Pair, type RecordedAnswer } from './form.js'
import { type Asked } from './question.js'
import { targetToKeep } from './secrets.js'
import { type Tape } from './tape.js'
import { breakOff, hasBody, linesOf, valueOf, writeHead } from './wire.js'

/** What a recorded node answers from. */
export interface ReplayedOptions {
  readonly tape: Tape
  /** Whether each answer takes as long as it took. */
  readonly isTimed: boolean
  /** Told of each question that it has no answer to. */
  readonly onMissing: (what: string, why: string) => void
}

const longestBody = 64 * 1024 * 1024

/** A node that answers what another one has answered. */
export class ReplayedNode {
  readonly #options: ReplayedOptions
  #answered = 0
  #missing = 0

  constructor (options: ReplayedOptions) {
    this.#options = options
  }

  /** How many questions were answered. */
  get answered (): number {
    return this.#answered
  }

  /** How many could not be. */
  get missing (): number {
    return this.#missing
  }

  /** Answers one question. */
  async answer (request: IncomingMessage, response: ServerResponse): Promise<void> {
    const asked = await questionIn(request)
    const pair = this.#options.tape.answerTo(asked)
    if (pair === undefined) return this.#miss(response, asked, 'it is not in the recording')
    const { answer, none } = pair
    if (answer?.leftOut !== undefined) {
      return this.#miss(response, asked, `its answer was left out of the recording: ${answer.leftOut}`)
    }
    this.#answered++
    // Nothing came, so nothing does: who asks has its own patience.
    if (none === 'silent') return
    await this.#waits(pair.head ?? pair.took, response)
    if (answer === undefined) request.socket.destroy()
    else await this.#give(answer, pair, asked, response)
  }

  async #give (recorded: RecordedAnswer, pair: Pair, { headers }: Asked, response: ServerResponse): Promise<void> {
    const { status, lines, body } = inCodingOf(recorded, headers)
    const isWhole = recorded.broken === undefined
    writeHead(response, status, isWhole && hasBody(response.req.method, status) ? ofLength(lines, body.length) : lines)
    if (!isWhole) response.write(body)
    await this.#waits(pair.took - (pair.head ?? 0), response)
    if (isWhole) response.end(body)
    else breakOff(response, lines)
  }

  #miss (response: ServerResponse, { method, target }: Asked, why: string): void {
    this.#missing++
    const what = `${method} ${targetToKeep(target)}`
    this.#options.onMissing(what, why)
    const { status, body } = new Refusal(404, 'web_framework_error', `varve replay cannot answer ${what}: ${why}`)
    response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }).end(
      body
    )
  }

  async #waits (ms: number, response: ServerResponse): Promise<void> {
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

async function questionIn (request: IncomingMessage): Promise<Asked> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    length += chunk.length
    // What is longer than any recorded one is not in the recording.
    if (length <= longestBody) chunks.push(chunk)
  }
  return {
    method: String(request.method),
    target: localTarget(String(request.url)),
    headers: linesOf(request),
    body: Buffer.concat(chunks)
  }
}

interface Given {
  readonly status: number
  readonly lines: Lines
  readonly body: Buffer
}

/** An answer as who asks can read it: what was recorded in a coding that they do not take is given to them without. */
function inCodingOf (recorded: RecordedAnswer, headers: Lines): Given {
  const { status, headers: lines } = recorded
  const body = bytesOf(recorded)
  const coding = valueOf(lines, 'content-encoding')
  if (
    coding === undefined || (valueOf(headers, 'accept-encoding') ?? '').toLowerCase().includes(coding.toLowerCase())
  ) return { status, lines, body }
  const plain = decoded(body, coding, longestBody)
  return plain === undefined
    ? { status, lines, body }
    : { status, lines: lines.filter(([name]) => name.toLowerCase() !== 'content-encoding'), body: plain }
}

// Who has edited a body has not counted it.
function ofLength (lines: Lines, length: number): Lines {
  return lines.map(([name, value]) => [name, name.toLowerCase() === 'content-length' ? String(length) : value])
}
