import { type StampedPosition } from '../api/position.js'
import { tagOf } from './entry.js'
import { type Stored } from './stored.js'
import { type ToldName } from './to-share.js'

const contentType = 'text/plain'

/**
 * To which stream a path leads, as replicas share it: in the form of an entry under the key of the path, so that it is
 * proven, moved and purged like one.
 */
export function sharedName (path: string, stream: string, stamped: StampedPosition, ttlMs: number): ToldName {
  // Without the generation, so that it is as true of one that it is brought over to.
  const body = Buffer.from(stream.slice(spaceLength(stream)))
  const own = { release: undefined, lowestVersion: undefined, range: undefined, cursor: undefined, gasUsed: undefined }
  return {
    stored: { key: path, status: 200, contentType, body, etag: tagOf(contentType, body), stamped, ...own },
    ttlMs
  }
}

/** The stream that a shared name leads to; undefined for what is none. */
export function streamIn ({ key, status, contentType: type, body }: Stored): string | undefined {
  const path = body.toString('latin1')
  const isName = status === 200 && type === contentType &&
    /^\/v1\/accounts\/0x[0-9a-f]{64}\/events\/[0-9]{1,20}$/.test(path)
  return isName ? key.slice(0, spaceLength(key)) + path : undefined
}

// Chain, generation and representation stand before the path.
function spaceLength (key: string): number {
  return key.indexOf(' json ') + ' json '.length
}
