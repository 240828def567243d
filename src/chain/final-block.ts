import { type Anchor } from './anchors.js'
import { readFinalBlockHash } from '../api/block-head.js'
import { type UpstreamResponse } from '../api/upstream-response.js'
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
  const hash = readFinalBlockHash(response.body, height, stamped.position.head.version)
  return hash === undefined ? undefined : { height, hash }
}
