import { setTimeout as pause } from 'node:timers/promises'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { Client } from 'undici'
import { type Reply } from '../../../sandbox/reply.js'
import { type Got } from '../client.js'
import { type Chance } from '../fleet/chance.js'
import { answerOf } from '../fleet/oracle.js'
import { describe } from '../fleet/reader.js'
import { positionOn } from '../fleet/shown.js'
import { spell, type Spelt } from '../fleet/spell.js'
import { drawWish, type Wish } from '../fleet/wish.js'
import { type Soak } from './soak.js'
import { judgeStrained } from './verdict.js'

interface Known {
  readonly wish: Wish
  readonly spelt: Spelt
  readonly right: Reply
  etag: string | undefined
}

/**
 * How hot reads come: at some pace with much that is asked again, or as fast as they can, each in a spelling that
 * nobody has used.
 */
export type Manner = 'paced' | 'flooding'

const clients = 3
const ahead = 8
const meanPauseMs = 12
// With what else is read that is as much as memory holds.
const known = 150
// Every so many batches another one takes a place.
const renewedShare = 0.25
// A spelling of its own, of the same read: what nodes do not know they ignore.
const ownSpellingShare = 0.3
const codedShare = 0.15
const validatedShare = 0.1
// Of what is so far behind the head every node has heard, and none keeps less.
const [leastBehind, mostBehind] = [60n, 260n]

/** What many ask for, sent ahead on kept connections; every byte is compared with what the chain says. */
export async function readHotOn (
  soak: Soak,
  chance: Chance,
  signal: AbortSignal,
  manner: Manner = 'paced'
): Promise<void> {
  const isFlood = manner === 'flooding'
  const list = Array.from({ length: known }, () => draw(soak, chance))
  const serialFrom = chance.below(1_000_000)
  let serial = 0
  await Promise.all(Array.from({ length: clients }, async () => {
    const client = new Client(soak.program.url, { pipelining: ahead })
    while (!signal.aborted) {
      if (chance.is(renewedShare)) list[chance.below(list.length)] = draw(soak, chance)
      await Promise.all(Array.from({ length: ahead }, async () => {
        const each = list[chance.below(list.length)]
        if (each === undefined) return
        const { target } = each.spelt
        const own = isFlood || chance.is(ownSpellingShare)
          ? `${target}${target.includes('?') ? '&' : '?'}nth=${serialFrom}${serial++}`
          : target
        await readHot(soak, client, each, own, wishesOf(each, chance))
      }))
      await pause(isFlood ? 0 : chance.below(2 * meanPauseMs))
    }
    await client.close()
  }))
}

/** What a client wants of the form of an answer. */
function wishesOf ({ etag }: Known, chance: Chance): Record<string, string> {
  if (etag !== undefined && chance.is(validatedShare)) return { 'if-none-match': etag }
  return chance.is(codedShare) ? { 'accept-encoding': chance.pick(['gzip', 'br', 'gzip, br']) } : {}
}

async function readHot (
  soak: Soak,
  client: Client,
  each: Known,
  target: string,
  wishes: Record<string, string>
): Promise<void> {
  const { tally, floors, world } = soak
  const { wish, spelt, right } = each
  const { floor } = floors
  const from = performance.now()
  let got: Got
  try {
    got = await request(client, spelt, target, wishes)
  } catch (error) {
    return tally.fail(`sent ahead: ${String(error)}`, `${spelt.method} ${target}`)
  }
  const span = { from, to: performance.now() }
  tally.answer('hot', got, span.to - span.from)
  const shown = positionOn(got, world.chain)
  const isUnchanged = got.status === 304 && wishes['if-none-match'] === each.etag && got.headers['etag'] === each.etag
  const isRight = (isUnchanged || (got.status === right.status && got.bytes.equals(right.body))) &&
    typeof shown === 'object' && shown.version >= (floor.versions.at(-1) ?? -1n)
  if (isRight) {
    if (wishes['accept-encoding'] === undefined) each.etag = got.headers['etag']
    return floors.show(shown)
  }
  const given = { wish, spelt, span, floor, wasKept: () => false, got, least: undefined, isPinned: false }
  const { wrong, granted } = judgeStrained(given, world, floors)
  if (granted !== undefined) tally.grant(granted)
  if (wrong !== undefined) tally.fail(`sent ahead: ${wrong}`, `${JSON.stringify(wishes)} ${describe(given, world)}`)
}

async function request (
  client: Client,
  { method, headers, body }: Spelt,
  path: string,
  wishes: Record<string, string>
): Promise<Got> {
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
    headers: answer.headers as Got['headers'],
    rawNames: [],
    body: bytes.toString(),
    bytes
  }
}

/** History that is kept whatever release renders it, and that is there. */
function draw ({ world }: Soak, chance: Chance): Known {
  const era = world.chain.present
  for (;;) {
    const drawn = drawWish(chance, world.fleet, era)
    const isPlain = drawn.kind === 'table' || (drawn.kind === 'block' && !drawn.hasTransactions) ||
      (drawn.kind === 'modules' && drawn.form === 'bcs' && drawn.cursor === undefined)
    if (!isPlain) continue
    const version = era.archive.head.version - leastBehind - BigInt(chance.below(Number(mostBehind - leastBehind)))
    const wish = { ...drawn, version }
    const spelt = spell(wish, chance)
    const right = answerOf(era, spelt, era.archive.height)
    if (right.status === 200) return { wish, spelt, right, etag: undefined }
  }
}
