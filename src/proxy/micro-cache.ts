import { type Position } from '../api/position.js'
import { microCacheKeyOf, type Read, type ReadKeys } from '../api/read.js'
import { type Hit } from './outcomes.js'
import { type ProxyContext, type ProxySettings } from './proxy-context.js'

/** Returns the maximum age of a micro-cached response; 0 disables the micro-cache. */
export function microCacheMs (
  { stateMs, indexMs, infoMs, gasMs }: Pick<ProxySettings, 'stateMs' | 'indexMs' | 'infoMs' | 'gasMs'>,
  { endpoint }: Read
): number {
  switch (endpoint.keyedBy) {
    case 'version':
      return stateMs
    case 'moving':
      return endpoint.name === 'index' ? indexMs : endpoint.name === 'info' ? infoMs : gasMs
    // Clients that read the newest events, the end of a stream or a pending transaction need the present one.
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
 * Returns the micro-cached response, unless it is below the client's minimum version. State carries its own position,
 * other responses the served one.
 */
export function readMicroCache (context: ProxyContext, read: Read, keys: ReadKeys): Hit | undefined {
  const entry = microCacheMs(context.settings, read) === 0 ? undefined : context.memory.get(microCacheKeyOf(keys))
  if (
    entry === undefined ||
    (read.minVersion !== undefined && (entry.readAt === undefined || entry.readAt.head.version < read.minVersion))
  ) return undefined
  // The body of the index must not be behind the served head (law 4: headers are the present, bodies are the past).
  if (read.endpoint.name === 'index' && isPositionBehind(entry.readAt, context.tracker.position)) return undefined
  return {
    name: 'hit_memory',
    entry,
    kind: 'moving',
    position: read.endpoint.keyedBy === 'version' ? entry.readAt : context.tracker.position
  }
}

function isPositionBehind (readAt: Position | undefined, served: Position | undefined): boolean {
  return readAt === undefined || served === undefined || readAt.head.version < served.head.version
}
