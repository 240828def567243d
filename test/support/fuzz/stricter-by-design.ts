import { isStricterThanUpstream as isSpelledOnPurpose } from '../request-variants.js'
import { headerOf, type ModelRequest } from '../model/request.js'

/** True if varve rejects by design what a node may accept. */
export function isStricterByDesign (sent: ModelRequest, servedVersion: bigint | undefined): boolean {
  const body = sent.body === undefined ? undefined : Buffer.from(sent.body, 'latin1').toString()
  if (isSpelledOnPurpose({ method: 'GET', target: sent.target, accept: undefined, contentType: undefined, body })) {
    return true
  }
  // Rejects malformed percent-encoding, which decoders treat in different ways.
  if (/%(?![0-9a-fA-F]{2})/.test(sent.target)) return true
  // Rejects features that nodes do not have: an encoded body, an expectation, a least version.
  return headerOf(sent, 'content-encoding') !== undefined || headerOf(sent, 'expect') !== undefined ||
    isAheadOf(servedVersion, headerOf(sent, 'x-varve-min-ledger-version'))
}

// True if the least version was not served yet: it may not come within the few milliseconds of the wait.
function isAheadOf (servedVersion: bigint | undefined, least: string | undefined): boolean {
  return least !== undefined &&
    (servedVersion === undefined || !/^\+?\d+$/.test(least) || BigInt(least.replace('+', '')) > servedVersion)
}
