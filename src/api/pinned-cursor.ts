/** A cursor that says at which version its listing goes on, and the node's own cursor within. */
export interface PinnedCursor {
  readonly version: bigint
  readonly upstreamCursor: string
}

// `varve` in hex. Every real cursor is a state key, whose first byte tells its kind and is never this one.
const pinPrefix = '7661727665'
const versionDigits = 16

/**
 * The cursor that clients see of a listing which goes on at a version; what a varve behind this one has pinned is
 * pinned anew.
 */
export function pinCursor (version: bigint, upstreamCursor: string): string {
  return `${pinPrefix}${version.toString(16).padStart(versionDigits, '0')}${upstreamCursorOf(upstreamCursor)}`
}

/** Reads such a cursor, in lower case; undefined for one that pins nothing. */
export function readPinnedCursor (cursor: string): PinnedCursor | undefined {
  const at = pinPrefix.length + versionDigits
  if (!isPinnedCursor(cursor) || cursor.length <= at) return undefined
  return { version: BigInt(`0x${cursor.slice(pinPrefix.length, at)}`), upstreamCursor: cursor.slice(at) }
}

/** Whether a cursor begins like a pinned one: it is one then, or none at all. */
export function isPinnedCursor (cursor: string): boolean {
  return cursor.startsWith(pinPrefix)
}

/** The node's own cursor, which alone is kept and sent: what is kept is shared with reads that name their version. */
export function upstreamCursorOf (cursor: string): string {
  return readPinnedCursor(cursor)?.upstreamCursor ?? cursor
}
