import { type VersionWaitResult, type VersionWaits } from '../chain/version-waits.js'
import { type Position } from '../api/position.js'
import { versionNotFoundError } from '../api/read-request.js'
import { type Read } from '../api/read.js'
import { unavailableError } from '../api/error-response.js'
import { noUpstreamError, type PinParts, type ReadClient } from './pinned-read.js'
import { type Config } from '../config/schema.js'

/** Parts that wait for versions. */
export interface WaitParts extends PinParts {
  readonly now: () => number
  readonly versionWaits: Pick<VersionWaits, 'waitFor' | 'close'>
  readonly settings: Pick<Config, 'waitForVersion'>
  readonly metrics: { waited(result: VersionWaitResult): void }
}

/** Versions that upstreams must have reached: the version that a read names, and its minimum version. */
export type VersionRequirements = Pick<Read, 'requestedVersion' | 'minVersion'>

// Longest wait of a client with a minimum version, which may wait even when `waitForVersion.ms` is 0.
const defaultMinVersionWaitMs = 1000
// Distance above the head, in blocks of average size, beyond which a version is more likely a client's mistake.
const nearBlocks = 2n

/** Reports a read that needs a version above the head that this process knows. */
export function isAboveKnownHead (
  { tracker }: Pick<PinParts, 'tracker'>,
  { requestedVersion, minVersion }: VersionRequirements
): boolean {
  if (requestedVersion === undefined && minVersion === undefined) return false
  // The known head may not be served yet, until other processes have it too.
  const knownVersion = tracker.known?.position.head.version
  return (minVersion !== undefined && (knownVersion === undefined || minVersion > knownVersion)) ||
    (requestedVersion !== undefined && knownVersion !== undefined && requestedVersion > knownVersion)
}

/**
 * Waits for upstreams to reach the required versions.
 * On timeout, a missing minimum version is not found; every other read continues to the upstreams.
 */
export async function waitForVersions (
  context: WaitParts,
  { requestedVersion, minVersion }: VersionRequirements,
  client: ReadClient
): Promise<void> {
  const { now, tracker, settings: { waitForVersion: { ms: waitMs } } } = context
  const startedAtMs = now()
  const waitFor = async (version: bigint, timeoutMs: number): Promise<VersionWaitResult> => {
    const waitResult = await context.versionWaits.waitFor(version, timeoutMs, client.id)
    context.metrics.waited(waitResult)
    return waitResult
  }
  if (minVersion !== undefined) {
    if (tracker.position === undefined) await context.resolveChain()
    const isAbove = isAboveKnownHead(context, { requestedVersion: undefined, minVersion })
    const waitResult = isAbove ? await waitFor(minVersion, waitMs === 0 ? defaultMinVersionWaitMs : waitMs) : 'reached'
    // Rejects as unavailable, not missing: without a wait, the version may still arrive (law 11: "gone" and "not there"
    // are facts, not guesses).
    if (waitResult === 'too_many_waits') throw unavailableError('too many wait for a version')
    const known = tracker.known?.position.head.version
    if (known === undefined) throw noUpstreamError(context, 'no upstream has reported a position yet')
    if (known < minVersion) throw versionNotFoundError(minVersion)
  }
  const leftMs = waitMs - (now() - startedAtMs)
  if (
    requestedVersion !== undefined && tracker.known !== undefined && leftMs > 0 &&
    isNearHead(tracker.known.position, requestedVersion)
  ) await waitFor(requestedVersion, leftMs)
}

/** Reports a version just above the head, by the average block size of the window. */
function isNearHead ({ head, oldest }: Position, version: bigint): boolean {
  const count = head.blockHeight - oldest.blockHeight
  // Rounds up, because a block has at least one version, even while only one is known.
  const versions = count === 0n ? 0n : (nearBlocks * (head.version - oldest.version) + count - 1n) / count
  return version > head.version && version - head.version <= (versions > nearBlocks ? versions : nearBlocks)
}
