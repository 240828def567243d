/** Facts about an upstream that decide on its polls. */
export interface PolledUpstream {
  readonly state: string
  readonly isUp: boolean
  readonly isVerified: boolean
  readonly health: { readonly isBackingOff: boolean }
  readonly stampAgeMs: number
}

// Limits the interval, because an upstream that recovers must be used again within two seconds, whatever `pollMs` is.
const maxIntervalMs = 1000
// Refreshes the release at least this often, whatever the traffic (law 8: rendering can change, history cannot). While
// peers report heads, half as often: a rendering retires once no peer knows an upstream with its release.
const readReleaseEveryMs = 15_000
// Polls this seldom while peers report heads, only to show that the upstream is reachable from here. One peer polls,
// mostly at every other interval, so the other peers take over if they hear nothing for longer.
const proveReachableEveryMs = 10_000
const peerIntervals = 3
// Allows several polls in flight, because a poll that hangs must not delay the next one.
const maxInFlight = 8
/** Another poll is sent beside one that is in flight for this long. */
export const hangsAfterMs = 0.9 * maxIntervalMs
// Caps a poll at 7 s: with a poll a second, at most eight hang at once. The first poll gets the full timeout.
const maxPollMs = 7000

/** Interval of polls while a request waits for a version: regular polls are too rare for a wait of half a second. */
export const waiterPollEveryMs = 100
/** Limits polls of quarantined upstreams, which reads cause, to one round per interval. */
export const quarantinedPollEveryMs = 250
/** Time in which an upstream that is reachable reports its head. */
export const reachabilityTimeoutMs = 1000

/** Interval at which an upstream's poll may become due. */
export function pollIntervalMs (pollMs: number): number {
  return Math.min(pollMs, maxIntervalMs)
}

/**
 * Polls upstreams that are down or unverified, and idle ones, whose position no response has confirmed; polls less
 * while peers report heads. Polls an upstream that limits our rate for its release alone, until its backoff ends.
 */
export function isPollDue (
  { health, isUp, isVerified, stampAgeMs }: PolledUpstream,
  pollMs: number,
  sinceSentMs: number,
  peerHeadAgeMs: number
): boolean {
  const isReported = peerHeadAgeMs < peerIntervals * pollMs
  const idleMs = isReported ? Math.max(pollMs, proveReachableEveryMs) : pollMs
  return sinceSentMs >= (isReported ? 2 : 1) * readReleaseEveryMs ||
    (!health.isBackingOff && (!isUp || !isVerified || stampAgeMs >= idleMs))
}

/** Returns true if a poll may be sent beside earlier ones, because they hang. */
export function mayPollBesideHanging (inFlight: number, sinceSentMs: number): boolean {
  return sinceSentMs >= hangsAfterMs && inFlight < maxInFlight
}

/** Timeout of a poll, from the timeout of the upstream's requests. */
export function pollTimeoutMs (timeoutMs: number, isFirst = false): number {
  return isFirst ? timeoutMs : Math.min(timeoutMs, maxPollMs)
}
