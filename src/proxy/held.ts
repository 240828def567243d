import { momentKeyOf, type Read, type ReadKeys } from '../reads/read.js'
import { type Hit } from './outcomes.js'
import { type Parts, type ProxySettings } from './parts.js'

/** For how long an answer of the moment may be given again. */
export function heldMs ({ stateMs, infoMs, gasMs }: Pick<ProxySettings, 'stateMs' | 'infoMs' | 'gasMs'>, { endpoint }: Read): number {
  switch (endpoint.keyedBy) {
    case 'version': return stateMs
    case 'moment': return endpoint.name === 'info' ? infoMs : gasMs
    // Whoever asks for the newest events, or for the end of a stream, wants them as they are.
    case 'page': case 'block': return 0
  }
}

/** What was answered a moment ago, if it is new enough for the client; the state of then bears the position of then, all else the present one. */
export function heldOutcome (parts: Parts, read: Read, keys: ReadKeys): Hit | undefined {
  const entry = heldMs(parts.settings, read) === 0 ? undefined : parts.memory.get(momentKeyOf(keys))
  if (entry === undefined || (read.atLeast !== undefined && (entry.readAt === undefined || entry.readAt.head.version < read.atLeast))) return undefined
  return { name: 'hit_memory', entry, kind: 'moment', position: read.endpoint.keyedBy === 'version' ? entry.readAt : parts.tracker.position }
}
