import { isStricterThanNode as isSpelledOnPurpose } from '../rejected-requests.js'
import { headerOf, type RawRequest } from './raw-request.js'

/** Whether varve refuses this on purpose although a node may take it. */
export function isStricterByDesign (sent: RawRequest, shown: bigint | undefined): boolean {
  const body = sent.body === undefined ? undefined : Buffer.from(sent.body, 'latin1').toString()
  if (isSpelledOnPurpose({ method: 'GET', target: sent.target, accept: undefined, contentType: undefined, body })) {
    return true
  }
  // What one decoder leaves as it stands and another refuses cannot be read with certainty.
  if (/%(?![0-9a-fA-F]{2})/.test(sent.target)) return true
  // What nodes know nothing of: a packed body, an expectation, a least version.
  return headerOf(sent, 'content-encoding') !== undefined || headerOf(sent, 'expect') !== undefined ||
    isAheadOf(shown, headerOf(sent, 'x-varve-min-ledger-version'))
}

// One that was not shown yet may not come within the few milliseconds that it is waited for.
function isAheadOf (shown: bigint | undefined, least: string | undefined): boolean {
  return least !== undefined &&
    (shown === undefined || !/^\+?\d+$/.test(least) || BigInt(least.replace('+', '')) > shown)
}
