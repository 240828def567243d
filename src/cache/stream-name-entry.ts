import { type ResponsePosition } from '../api/position.js'
import { isEventStreamPath } from '../api/request-targets.js'
import { computeEtag } from './entry.js'
import { type StoredEntry } from './entry-codec.js'
import { type StreamNameWrite } from './tier.js'

const contentType = 'text/plain'

/**
 * Encodes the stream of a path as an entry under the key of the path.
 * The entry form gives a stream name the same checks and purges.
 */
export function encodeStreamName (
  path: string,
  stream: string,
  stamped: ResponsePosition,
  ttlMs: number
): StreamNameWrite {
  // Without chain and generation, so the name stays valid under another generation.
  const body = Buffer.from(stream.slice(keyPrefixLength(stream)))
  const own = {
    release: undefined,
    lowestVersion: undefined,
    validity: undefined,
    cursor: undefined,
    gasUsed: undefined
  }
  return {
    stored: { key: path, status: 200, contentType, body, etag: computeEtag(contentType, body), stamped, ...own },
    ttlMs
  }
}

/** Decodes a stream name; undefined when the entry is not a stream name. */
export function decodeStreamName ({ key, status, contentType: type, body }: StoredEntry): string | undefined {
  const path = body.toString('latin1')
  const isName = status === 200 && type === contentType && isEventStreamPath(path)
  return isName ? key.slice(0, keyPrefixLength(key)) + path : undefined
}

// Chain, generation and representation precede the path in a key.
function keyPrefixLength (key: string): number {
  return key.indexOf(' json ') + ' json '.length
}
