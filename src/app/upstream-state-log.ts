import { type Logger } from 'pino'
import { type Upstream } from '../upstreams/upstream.js'
import { type UpstreamState, upstreamStateOf } from '../upstreams/upstream-state.js'

/** Logs one line per change of an upstream's state, however often it is called. */
export function upstreamStateLogger (log: Logger): (upstream: Upstream) => void {
  const lastStates = new WeakMap<Upstream, UpstreamState>()
  return upstream => {
    const { name: state, reason } = upstreamStateOf(upstream)
    if (state === lastStates.get(upstream)) return
    lastStates.set(upstream, state)
    logState(log, upstream.client.name, state, reason)
  }
}

function logState (log: Logger, upstream: string, state: UpstreamState, reason: string | undefined): void {
  switch (state) {
    case 'unknown':
      return
    case 'up':
      return log.info({ upstream }, 'upstream is up')
    case 'backing_off':
      return log.warn({ upstream, reason }, 'upstream is rate limiting varve')
    case 'down':
      return log.warn({ upstream, reason }, 'upstream is down')
    case 'quarantined':
      return log.error({ upstream, reason }, 'upstream serves another chain: quarantined')
  }
}
