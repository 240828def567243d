import { type Logger } from 'pino'
import { type Upstream } from '../upstreams/upstream.js'
import { type UpstreamState, upstreamStateOf } from '../upstreams/upstream-state.js'

/** Logs one line per change of an upstream's state, however often it is called. */
export function upstreamStateLoggerOf (upstream: Upstream, log: Logger): () => void {
  const upstreamName = upstream.client.name
  let last: UpstreamState | undefined
  return () => {
    const { name, reason } = upstreamStateOf(upstream)
    if (name === last) return
    last = name
    logState(name, reason)
  }

  function logState (name: UpstreamState, reason: string | undefined): void {
    switch (name) {
      case 'unknown':
        return
      case 'up':
        return log.info({ upstream: upstreamName }, 'upstream is up')
      case 'backing_off':
        return log.warn({ upstream: upstreamName, reason }, 'upstream is rate limiting varve')
      case 'down':
        return log.warn({ upstream: upstreamName, reason }, 'upstream is down')
      case 'quarantined':
        return log.error({ upstream: upstreamName, reason }, 'upstream serves another chain: quarantined')
    }
  }
}
