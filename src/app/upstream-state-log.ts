import { type Logger } from 'pino'
import { type Upstream } from '../upstreams/upstream.js'
import { type UpstreamState, upstreamStateOf } from '../upstreams/upstream-state.js'

/** Logs one line per change of an upstream's state, however often it is called. */
export function upstreamStateLoggerOf (upstream: Upstream, log: Logger): () => void {
  const node = upstream.client.name
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
        return log.info({ node }, 'upstream is up')
      case 'backing_off':
        return log.warn({ node, reason }, 'upstream is rate limiting varve')
      case 'down':
        return log.warn({ node, reason }, 'upstream is down')
      case 'quarantined':
        return log.error({ node, reason }, 'upstream serves another chain: quarantined')
    }
  }
}
