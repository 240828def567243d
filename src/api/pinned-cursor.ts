/** Version at which a listing continues, and the upstream's cursor within that version. */
export interface PinnedCursor {
  readonly version: bigint
  readonly upstreamCursor: string
}

// `varve` in hex. Upstream cursors are state keys, and no kind of state key begins with this byte.
const pinPrefix = '7661727665'
const versionDigits = 16

/** Returns the cursor that clients receive for a listing at a version; replaces the pin of a varve upstream. */
export function pinCursor (version: bigint, upstreamCursor: string): string {
  return `${pinPrefix}${version.toString(16).padStart(versionDigits, '0')}${upstreamCursorOf(upstreamCursor)}`
}

/** Reads a pinned cursor in lower case; undefined if the cursor pins nothing. */
export function readPinnedCursor (cursor: string): PinnedCursor | undefined {
  const at = pinPrefix.length + versionDigits
  if (!isPinnedCursor(cursor) || cursor.length <= at) return undefined
  return { version: BigInt(`0x${cursor.slice(pinPrefix.length, at)}`), upstreamCursor: cursor.slice(at) }
}

/** Returns true if a cursor starts like a pinned cursor; it is invalid if the rest is incomplete. */
export function isPinnedCursor (cursor: string): boolean {
  return cursor.startsWith(pinPrefix)
}

/**
 * Returns the upstream's own cursor. Entries store only this form, so a read with a pinned cursor and a read that names
 * the same version share an entry.
 */
export function upstreamCursorOf (cursor: string): string {
  return readPinnedCursor(cursor)?.upstreamCursor ?? cursor
}
