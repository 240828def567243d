import { type Position } from '../api/position.js'
import { momentKeyOf, type Read, type ReadKeys } from '../api/read.js'
import { type Hit } from './outcomes.js'
import { type Parts, type ProxySettings } from './parts.js'

/** For how long an answer of the moment may be given again. */
export function heldMs (
  { stateMs, indexMs, infoMs, gasMs }: Pick<ProxySettings, 'stateMs' | 'indexMs' | 'infoMs' | 'gasMs'>,
  { endpoint }: Read
): number {
  switch (endpoint.keyedBy) {
    case 'version':
      return stateMs
    case 'moment':
      return endpoint.name === 'index' ? indexMs : endpoint.name === 'info' ? infoMs : gasMs
    // Whoever asks for the newest events, for the end of a stream or for what is not committed yet, wants it as it is.
    case 'page':
    case 'list':
    case 'hash':
    case 'transaction':
    case 'block':
    case 'height':
      return 0
  }
}

/**
 * What was answered a moment ago, if it is new enough for the client; the state of then bears the position of then, all
 * else the present one.
 */
export function heldOutcome (parts: Parts, read: Read, keys: ReadKeys): Hit | undefined {
  const entry = heldMs(parts.settings, read) === 0 ? undefined : parts.memory.get(momentKeyOf(keys))
  if (
    entry === undefined ||
    (read.atLeast !== undefined && (entry.readAt === undefined || entry.readAt.head.version < read.atLeast))
  ) return undefined
  // The index tells of the head in its body too, which must not be behind what was shown.
  if (read.endpoint.name === 'index' && isBehind(entry.readAt, parts.tracker.position)) return undefined
  return {
    name: 'hit_memory',
    entry,
    kind: 'moment',
    position: read.endpoint.keyedBy === 'version' ? entry.readAt : parts.tracker.position
  }
}

function isBehind (readAt: Position | undefined, shown: Position | undefined): boolean {
  return readAt === undefined || shown === undefined || readAt.head.version < shown.head.version
}
