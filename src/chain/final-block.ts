import { type Anchor } from './anchors.js'
import { type UpstreamResponse } from '../api/upstream-response.js'
import { readU64 } from '../api/integer.js'
import { blockByHeightTarget } from '../api/targets.js'
import { UpstreamFailure } from '../upstreams/upstream-failure.js'
import { type UpstreamRequest, probeRequest } from '../upstreams/upstream-request.js'

/**
 * Reads the final block of a height, never from the cache; undefined where the upstream lacks it. Rejects on 429, 5xx,
 * or no position.
 */
export async function readFinalBlock (
  fetch: (request: UpstreamRequest) => Promise<UpstreamResponse>,
  height: bigint
): Promise<Anchor | undefined> {
  const response = await fetch(probeRequest(blockByHeightTarget(height)))
  response.rest?.destroy()
  const { status, stamped } = response
  if (status === 429 || status >= 500 || (status < 400 && stamped === undefined)) {
    throw new UpstreamFailure('the upstream', 'invalid_response', `${status} for a block`)
  }
  if (status !== 200 || response.rest !== undefined || stamped === undefined) return undefined
  return readAnchor(response.body, height, stamped.position.head.version)
}

function readAnchor (body: Buffer, height: bigint, headVersion: bigint): Anchor | undefined {
  try {
    const block = JSON.parse(body.toString()) as Readonly<Record<string, unknown>>
    const { block_height: blockHeight, block_hash: hash, last_version: last } = block
    if (
      blockHeight !== String(height) || typeof hash !== 'string' || typeof last !== 'string' ||
      !/^0x[0-9a-fA-F]{64}$/.test(hash)
    ) return undefined
    // BigInt takes seconds for a text of millions of digits.
    const lastVersion = readU64(last)
    // A block at the head is not final: it may be replaced.
    return lastVersion !== undefined && lastVersion < headVersion ? { height, hash: hash.toLowerCase() } : undefined
  } catch {
    return undefined
  }
}
