import { setTimeout as pause } from 'node:timers/promises'
import { Client } from 'undici'
import { type SandboxResponse } from '../../../sandbox/make-response.js'
import { drawRead } from '../model/draw-read.js'
import { expectedResponse } from '../model/oracle.js'
import { type ReadSpec } from '../model/read-spec.js'
import { drawStyle, renderRequest } from '../model/render-request.js'
import { type ModelRequest, testRequestOf } from '../model/request.js'
import { decodedBody, type ModelResponse } from '../model/response-difference.js'
import { type SeededRandom } from '../model/seeded-random.js'
import { servedPositionOf } from '../model/served-position.js'
import { describePoolRead } from '../simulation/run-reads.js'
import { type SoakRun } from './soak-run.js'

interface Known {
  readonly spec: ReadSpec
  readonly request: ModelRequest
  readonly right: SandboxResponse
  etag: string | undefined
}

/** Pace of hot reads: moderate with repetitions, or as fast as possible with a new request variant each. */
export type ReadPace = 'paced' | 'flooding'

const clients = 3
const ahead = 8
const meanPauseMs = 12
// Number of hot reads: with the other reads, as much as fits in memory.
const known = 150
// Share of batches that replace a hot read.
const renewedShare = 0.25
// Share of unique request variants: nodes ignore unknown parameters.
const ownVariantShare = 0.3
const codedShare = 0.15
const validatedShare = 0.1
// Distances below the head that every upstream has reached and no window excludes.
const [leastBehind, mostBehind] = [60n, 260n]

/** Runs popular reads, pipelined on kept-alive connections; compares every byte with the chain. */
export async function runHotReads (
  soak: SoakRun,
  chance: SeededRandom,
  signal: AbortSignal,
  manner: ReadPace = 'paced'
): Promise<void> {
  const isFlood = manner === 'flooding'
  const list = Array.from({ length: known }, () => draw(soak, chance))
  const serialFrom = chance.integerBelow(1_000_000)
  let serial = 0
  await Promise.all(Array.from({ length: clients }, async () => {
    const client = new Client(soak.program.url, { pipelining: ahead })
    while (!signal.aborted) {
      if (chance.happens(renewedShare)) list[chance.integerBelow(list.length)] = draw(soak, chance)
      await Promise.all(Array.from({ length: ahead }, async () => {
        const each = list[chance.integerBelow(list.length)]
        if (each === undefined) return
        const { target } = each.request
        const own = isFlood || chance.happens(ownVariantShare)
          ? `${target}${target.includes('?') ? '&' : '?'}nth=${serialFrom}${serial++}`
          : target
        await readHot(soak, client, each, own, preferencesOf(each, chance))
      }))
      await pause(isFlood ? 0 : chance.integerBelow(2 * meanPauseMs))
    }
    await client.close()
  }))
}

/** Returns request headers that choose the form of a response. */
function preferencesOf ({ etag }: Known, chance: SeededRandom): Record<string, string> {
  if (etag !== undefined && chance.happens(validatedShare)) return { 'if-none-match': etag }
  return chance.happens(codedShare) ? { 'accept-encoding': chance.pick(['gzip', 'br', 'gzip, br']) } : {}
}

async function readHot (
  soak: SoakRun,
  client: Client,
  each: Known,
  target: string,
  wishes: Record<string, string>
): Promise<void> {
  const { tally, world } = soak
  const { spec, request: variant, right } = each
  const { floor: servedFloor } = world.observations
  const from = performance.now()
  let got: ModelResponse
  try {
    got = await request(client, variant, target, wishes)
  } catch (error) {
    if (/other side closed|ECONNRESET/.test(String(error)) && world.observations.wasPausedSince(from)) {
      return tally.note('left: closed at a reload')
    }
    return tally.fail(`sent ahead: ${String(error)}`, `${variant.method} ${target}`)
  }
  const span = { from, to: performance.now() }
  tally.countResponse('hot', got)
  const sent = { ...variant, headers: [...variant.headers, ...Object.entries(wishes)] }
  const body = decodedBody(sent, got)
  const served = servedPositionOf(got, world.chain)
  const isUnchanged = got.status === 304 && wishes['if-none-match'] === each.etag && got.headers['etag'] === each.etag
  const isRight =
    (isUnchanged || (got.status === right.status && typeof body === 'object' && body.equals(right.body))) &&
    typeof served === 'object' && served.era.index >= servedFloor.era &&
    served.version >= (servedFloor.versions[served.era.index] ?? -1n)
  if (isRight) {
    if (wishes['accept-encoding'] === undefined) each.etag = String(got.headers['etag'])
    return world.observations.observe(served)
  }
  const given = { spec, request: sent, span, servedFloor, wasCached: () => false, response: got }
  const { failure, tolerated } = soak.judgeRead(given, undefined)
  if (tolerated !== undefined) tally.note(`tolerated: ${tolerated}`)
  if (failure !== undefined) {
    tally.fail(`sent ahead: ${failure}`, `${JSON.stringify(wishes)} ${describePoolRead(given, world)}`)
  }
}

async function request (
  client: Client,
  sent: ModelRequest,
  path: string,
  wishes: Record<string, string>
): Promise<ModelResponse> {
  const { method = 'GET', headers, body } = testRequestOf(sent)
  const { statusCode: status, headers: received, body: bytes } = await client.request({
    method,
    path,
    headers: { ...headers, ...wishes },
    body: body ?? null,
    idempotent: true
  })
  return { status, headers: received, bytes: Buffer.from(await bytes.arrayBuffer()) }
}

/** Draws a read of existing history that no release renders differently. */
function draw ({ world }: SoakRun, chance: SeededRandom): Known {
  const era = world.chain.current
  for (;;) {
    const drawn = drawRead(chance, world.source)
    const isPlain = drawn.kind === 'table' || (drawn.kind === 'block' && drawn.transactions !== 'true') ||
      (drawn.kind === 'modules' && drawn.form === 'bcs' && drawn.cursor === undefined)
    if (!isPlain) continue
    const version = era.archive.head.version - leastBehind -
      BigInt(chance.integerBelow(Number(mostBehind - leastBehind)))
    const spec = { ...drawn, version }
    const request = renderRequest(spec, drawStyle(chance))
    const right = expectedResponse(era, request, { height: era.archive.height })
    if (right.status === 200) return { spec, request, right, etag: undefined }
  }
}
