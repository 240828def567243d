import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { drawRead } from '../model/draw-read.js'
import { drawStyle, renderRequest } from '../model/render-request.js'
import { type ModelRequest, rawRequestBytes } from '../model/request.js'
import { type ModelResponse } from '../model/response-difference.js'
import { type SeededRandom } from '../model/seeded-random.js'
import { type SoakRun } from './soak-run.js'
import { isUnavailable } from './judge-under-load.js'

const leaveEveryMs = 40
const mostSentAhead = 4
const longestStayMs = 60

/** Runs clients that disconnect after some requests, inside a request, or inside a response. */
export async function runLeavingClients (
  { program, world, tally }: SoakRun,
  chance: SeededRandom,
  signal: AbortSignal
): Promise<void> {
  const { hostname, port } = new URL(program.url)
  const gone: Array<Promise<void>> = []
  while (!signal.aborted) {
    const bytes = Buffer.concat(Array.from(
      { length: chance.integerBetween(1, mostSentAhead) },
      () => rawRequestBytes(renderRequest(drawRead(chance, world.source), drawStyle(chance)))
    ))
    const sent = chance.happens(0.2) ? bytes.subarray(0, chance.integerBetween(1, bytes.length - 1)) : bytes
    const stayMs = chance.happens(0.3) ? 0 : chance.integerBelow(longestStayMs)
    gone.push((async () => {
      const socket = connect(Number(port), hostname)
      socket.on('error', () => {})
      socket.write(sent)
      await pause(stayMs)
      if (chance.happens(0.5)) socket.resetAndDestroy()
      else socket.destroy()
      tally.note('left: rude')
    })())
    await pause(chance.integerBelow(2 * leaveEveryMs))
  }
  await Promise.all(gone)
}

const largeEveryMs = 4000
const sipMs = 8
const mostRead = 400_000

/** Reads a body too large for the cache: at once, slowly with pauses, or partially. */
export async function runLargeReads (
  soak: SoakRun,
  large: LargeRead,
  chance: SeededRandom,
  signal: AbortSignal
): Promise<void> {
  while (!signal.aborted) {
    await readLarge(soak, large, chance.pick(['at once', 'in sips', 'in part']))
    await pause(chance.integerBelow(2 * largeEveryMs), undefined, { signal }).catch(() => {})
  }
}

/** A large response, its request, and its body as each release renders it. */
export interface LargeRead {
  readonly request: ModelRequest
  readonly version: bigint
  readonly rightOf: (release: string) => Buffer
}

async function readLarge (
  { program, world, tally }: SoakRun,
  { request: { target }, version, rightOf }: LargeRead,
  how: 'at once' | 'in sips' | 'in part'
): Promise<void> {
  const from = performance.now()
  const sent = request(`${program.url}${target}`, { agent: false })
  sent.end()
  let size = 0
  let text = ''
  const read: Buffer[] = []
  try {
    const [response] = await once(sent, 'response') as [IncomingMessage]
    const { statusCode: status = 0, headers } = response
    for await (const chunk of response as AsyncIterable<Buffer>) {
      if (status !== 200) text += chunk.toString()
      else read.push(chunk)
      size += chunk.length
      if (how === 'in sips') await pause(sipMs)
      if (how === 'in part' && size > mostRead) break
    }
    const isPart = how === 'in part' && size > mostRead
    const body = Buffer.concat(read)
    const isRight = status !== 200 ||
      world.pool.releases.map(rightOf).some(right =>
        (isPart || size === right.length) && body.equals(right.subarray(0, size))
      )
    const got: ModelResponse = { status, headers, bytes: Buffer.from(text) }
    tally.countResponse(`large ${how}`, got)
    if (!isRight) tally.fail(`a large body of ${size} bytes, read ${how}, is not the state of the chain`, target)
    if (
      status === 410 && world.pool.mayBePrunedEverywhere(world.chain.current, { from, to: performance.now() }, version)
    ) return
    if (isUnavailable(got)) tally.note('tolerated: unavailable')
    else if (status !== 200) mustBeTroubled(`${status} ${text}`)
  } catch (error) {
    // Requires a fault: a body that breaks off must never look complete, so its connection ends.
    mustBeTroubled(String(error))
    tally.note('left: large, broken off')
  } finally {
    sent.destroy()
  }

  function mustBeTroubled (what: string): void {
    const span = { from: from - 2000, to: performance.now() }
    if (!world.pool.wasAnyUpstream(span, ({ condition }) => condition !== 'up')) {
      tally.fail(`a large response failed, ${what}, though no node had any trouble`, target)
    }
  }
}
