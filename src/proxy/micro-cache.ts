import { type Position } from '../api/position.js'
import { microCacheKeyOf, type Read, type ReadKeys } from '../api/read.js'
import { type Hit } from './outcomes.js'
import { type ProxyContext, type ProxySettings } from './proxy-context.js'

/** For how long an answer of the moment may be given again. */
export function microCacheMs (
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
export function readMicroCache (context: ProxyContext, read: Read, keys: ReadKeys): Hit | undefined {
  const entry = microCacheMs(context.settings, read) === 0 ? undefined : context.memory.get(microCacheKeyOf(keys))
  if (
    entry === undefined ||
    (read.minVersion !== undefined && (entry.readAt === undefined || entry.readAt.head.version < read.minVersion))
  ) return undefined
  // The index tells of the head in its body too, which must not be behind what was shown.
  if (read.endpoint.name === 'index' && isPositionBehind(entry.readAt, context.tracker.position)) return undefined
  return {
    name: 'hit_memory',
    entry,
    kind: 'moment',
    position: read.endpoint.keyedBy === 'version' ? entry.readAt : context.tracker.position
  }
}

function isPositionBehind (readAt: Position | undefined, served: Position | undefined): boolean {
  return readAt === undefined || served === undefined || readAt.head.version < served.head.version
}
