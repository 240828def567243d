import { connect } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { Client, type Dispatcher } from 'undici'
import { reset } from '../reset.js'
import { type SeededRandom } from '../model/seeded-random.js'
import { type Soak, type SoakRead } from './soak.js'

const clientCount = 4
const ahead = 8
const meanPauseMs = 12
// Number of popular reads: with the others, more than fits in memory.
const popular = 150
const renewedShare = 0.25
const latestShare = 0.15
// Share of unique texts: nodes ignore unknown parameters.
const ownTextShare = 0.3

/** Reads popular history and the head, pipelined on kept-alive connections; floods never pause. */
export async function runReads (
  soak: Soak,
  chance: SeededRandom,
  signal: { readonly aborted: boolean },
  isFlood = false
): Promise<void> {
  const list = Array.from({ length: popular }, () => soak.draw(chance))
  const etags = new Map<SoakRead, string>()
  let serial = chance.integerBelow(1_000_000) * 1_000_000
  await Promise.all(Array.from({ length: clientCount }, async () => {
    const client = new Client(soak.program.url, { pipelining: ahead })
    while (!signal.aborted) {
      if (chance.happens(renewedShare)) {
        const [old] = list.splice(chance.integerBelow(list.length), 1, soak.draw(chance))
        if (old !== undefined) etags.delete(old)
      }
      await Promise.all(Array.from({ length: ahead }, async () => {
        const isLatest = !isFlood && chance.happens(latestShare)
        const read = isLatest ? soak.draw(chance, true) : list[chance.integerBelow(list.length)]
        if (read === undefined) return
        const suffix = isFlood || chance.happens(ownTextShare) ? `nth=${serial++}` : ''
        const etag = isLatest || !chance.happens(0.1) ? undefined : etags.get(read)
        const coding = etag === undefined && chance.happens(0.15) ? chance.pick(['gzip', 'br']) : undefined
        const got = await readOnce(soak, client, read, suffix, {
          ...(etag !== undefined && { 'if-none-match': etag }),
          ...(coding !== undefined && { 'accept-encoding': coding })
        })
        if (got !== undefined && coding === undefined && !isLatest) etags.set(read, got)
      }))
      await pause(isFlood ? 0 : chance.integerBelow(2 * meanPauseMs))
    }
    await client.close()
  }))
}

/** Reads once and judges the response; returns its tag if it is right. */
export async function readOnce (
  soak: Soak,
  client: Dispatcher,
  read: SoakRead,
  suffix = '',
  wishes: Readonly<Record<string, string>> = {}
): Promise<string | undefined> {
  const { tally } = soak
  const [reloads, servedBefore] = [soak.reloads, soak.served]
  const target = read.target.replace(/[?&]ledger_version=@/, '')
  const path = suffix === '' ? target : `${target}${target.includes('?') ? '&' : '?'}${suffix}`
  try {
    const { statusCode: status, headers, body } = await client.request({
      method: read.body === undefined ? 'GET' : 'POST',
      path,
      headers: {
        accept: read.accept,
        ...(read.body !== undefined && { 'content-type': 'application/json' }),
        ...wishes
      },
      body: read.body ?? null,
      idempotent: true
    })
    const bytes = Buffer.from(await body.arrayBuffer())
    tally.countResponse(read.target.includes('@') ? 'latest' : 'pinned', { status, headers, bytes })
    const wrong = await judge()
    if (wrong !== undefined) tally.fail(wrong, `${path} ${JSON.stringify(wishes)} ${bytes.toString('utf8', 0, 200)}`)
    return wrong === undefined && status !== 503 && status !== 429 ? String(headers['etag']) : undefined

    async function judge (): Promise<string | undefined> {
      // A rate limit of the last node that is left is forwarded.
      if ((status === 503 && headers['retry-after'] !== undefined) || (status === 429 && soak.isTroubled)) {
        tally.note('tolerated: unavailable')
        return undefined
      }
      const version = String(headers['x-node-ledger-version'])
      const isLatest = read.target.includes('@')
      if (!/^\d+$/.test(version)) return `${status} without a position`
      if (BigInt(version) > soak.head) return `${version} is above the head`
      if (!isLatest && BigInt(version) < servedBefore) return `${version} is before ${servedBefore}, which was served`
      if (!isLatest && BigInt(version) > soak.served) soak.served = BigInt(version)
      if (status === 304 && headers['etag'] === wishes['if-none-match']) return undefined
      const right = await soak.truthOf(read, version)
      const plain = headers['content-encoding'] === 'gzip'
        ? gunzipSync(bytes)
        : headers['content-encoding'] === 'br'
        ? brotliDecompressSync(bytes)
        : bytes
      return status === right.status && plain.equals(right.bytes) ? undefined : `${status} is not what the chain says`
    }
  } catch (error) {
    if (soak.reloads > reloads || soak.reloads % 2 === 1) tally.note('left: closed at a reload')
    else tally.fail(String(error), path)
    return undefined
  }
}

/** Reads endpoints that varve forwards, and a body too large for the cache: at once, slowly, or in part. */
export async function runStreams (soak: Soak, chance: SeededRandom, signal: AbortSignal): Promise<void> {
  const { largeRead: large, tally } = soak
  const { bytes: right } = await soak.truthOf(large, '')
  while (!signal.aborted) {
    const how = chance.pick(['at once', 'slowly', 'in part', 'forwarded', 'forwarded', 'forwarded'])
    const path = how === 'forwarded' ? '/v1/-/healthy' : large.target
    const client = new Client(soak.program.url)
    const { reloads } = soak
    try {
      const { statusCode: status, body } = await client.request({ method: 'GET', path })
      const chunks: Buffer[] = []
      for await (const chunk of body as AsyncIterable<Buffer>) {
        chunks.push(chunk)
        if (how === 'slowly') await pause(8)
        if (how === 'in part' && chunks.length > 6) break
      }
      const read = Buffer.concat(chunks)
      tally.count(`${how}: ${status}`)
      const isRight = how === 'forwarded' || right.subarray(0, how === 'in part' ? read.length : undefined).equals(read)
      if (status === 200 && !isRight) tally.fail(`a body of ${read.length} bytes, read ${how}, is wrong`, path)
      if (status === 503) tally.note('tolerated: unavailable')
      else if (status !== 200 && !soak.isTroubled) tally.fail(`${status} without a fault`, path)
    } catch (error) {
      // A body that breaks off must never look complete, so its connection ends.
      tally.note('left: broken off')
      if (!soak.isTroubled && soak.reloads === reloads) tally.fail(`broken off without a fault: ${String(error)}`, path)
    }
    await client.destroy()
    await pause(chance.integerBelow(300))
  }
}

/** Runs clients that disconnect after some requests, inside a request, or inside a response. */
export async function runLeaving (soak: Soak, chance: SeededRandom, signal: AbortSignal): Promise<void> {
  const { hostname, port } = new URL(soak.program.url)
  while (!signal.aborted) {
    const requests = Array.from({ length: chance.integerBetween(1, 4) }, () => {
      const { target } = soak.draw(chance)
      return `GET ${target} HTTP/1.1\r\nHost: x\r\n\r\n`
    }).join('')
    const socket = connect(Number(port), hostname).on('error', () => {})
    socket.write(chance.happens(0.2) ? requests.slice(0, chance.integerBetween(1, requests.length - 1)) : requests)
    await pause(chance.happens(0.3) ? 0 : chance.integerBelow(60))
    if (chance.happens(0.5)) reset(socket)
    else socket.destroy()
    soak.tally.note('left: in between')
  }
}
