import { setTimeout as pause } from 'node:timers/promises'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { Client } from 'undici'
import { type SandboxResponse } from '../../../sandbox/response.js'
import { type TestResponse } from '../client.js'
import { type SeededRandom } from '../simulation/seeded-random.js'
import { expectedResponse } from '../simulation/oracle.js'
import { describeJudgedRead } from '../simulation/run-reads.js'
import { servedPositionOf } from '../simulation/served-position.js'
import { renderRequest, type ModelRequest } from '../simulation/render-request.js'
import { drawRead, type ReadSpec } from '../simulation/read-spec.js'
import { type SoakRun } from './soak-run.js'
import { judgeUnderLoad } from './judge-under-load.js'

interface Known {
  readonly wish: ReadSpec
  readonly spelt: ModelRequest
  readonly right: SandboxResponse
  etag: string | undefined
}

/** Pace of hot reads: moderate with repetitions, or as fast as possible with a new request variant each. */
export type ReadPace = 'paced' | 'flooding'

const clients = 3
const ahead = 8
const meanPauseMs = 12
// Number of hot reads: with the other reads, as much as memory holds.
const known = 150
// Share of batches that replace a hot read.
const renewedShare = 0.25
// Share of unique request variants: nodes ignore unknown parameters.
const ownSpellingShare = 0.3
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
        const { target } = each.spelt
        const own = isFlood || chance.happens(ownSpellingShare)
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
  const { tally, floors, world } = soak
  const { wish, spelt, right } = each
  const { floor } = floors
  const from = performance.now()
  let got: TestResponse
  try {
    got = await request(client, spelt, target, wishes)
  } catch (error) {
    return tally.fail(`sent ahead: ${String(error)}`, `${spelt.method} ${target}`)
  }
  const span = { from, to: performance.now() }
  tally.answer('hot', got, span.to - span.from)
  const shown = servedPositionOf(got, world.chain)
  const isUnchanged = got.status === 304 && wishes['if-none-match'] === each.etag && got.headers['etag'] === each.etag
  const isRight = (isUnchanged || (got.status === right.status && got.bytes.equals(right.body))) &&
    typeof shown === 'object' && shown.version >= (floor.versions.at(-1) ?? -1n)
  if (isRight) {
    if (wishes['accept-encoding'] === undefined) each.etag = got.headers['etag']
    return floors.observe(shown)
  }
  const given = {
    spec: wish,
    request: spelt,
    span,
    servedFloor: floor,
    wasCached: () => false,
    response: got,
    least: undefined,
    isPinned: false
  }
  const { failure, tolerated } = judgeUnderLoad(given, world, floors)
  if (tolerated !== undefined) tally.tolerate(tolerated)
  if (failure !== undefined) {
    tally.fail(`sent ahead: ${failure}`, `${JSON.stringify(wishes)} ${describeJudgedRead(given, world)}`)
  }
}

async function request (
  client: Client,
  { method, headers, body }: ModelRequest,
  path: string,
  wishes: Record<string, string>
): Promise<TestResponse> {
  const answer = await client.request({
    method,
    path,
    headers: { ...headers, ...wishes },
    body: body ?? null,
    idempotent: true
  })
  const sent = Buffer.from(await answer.body.arrayBuffer())
  const coding = answer.headers['content-encoding']
  const bytes = coding === 'gzip' ? gunzipSync(sent) : coding === 'br' ? brotliDecompressSync(sent) : sent
  return {
    status: answer.statusCode,
    headers: answer.headers as TestResponse['headers'],
    rawNames: [],
    body: bytes.toString(),
    bytes
  }
}

/** Draws a read of existing history that no release renders differently. */
function draw ({ world }: SoakRun, chance: SeededRandom): Known {
  const era = world.chain.current
  for (;;) {
    const drawn = drawRead(chance, world.pool, era)
    const isPlain = drawn.kind === 'table' || (drawn.kind === 'block' && !drawn.hasTransactions) ||
      (drawn.kind === 'modules' && drawn.form === 'bcs' && drawn.cursor === undefined)
    if (!isPlain) continue
    const version = era.archive.head.version - leastBehind -
      BigInt(chance.integerBelow(Number(mostBehind - leastBehind)))
    const wish = { ...drawn, version }
    const spelt = renderRequest(wish, chance)
    const right = expectedResponse(era, spelt, era.archive.height)
    if (right.status === 200) return { wish, spelt, right, etag: undefined }
  }
}
