import { type Logger } from 'pino'
import { type OverallStatus } from '../http/status.js'
import { type Level } from '../http/status-conditions.js'

const everyMs = 2000

/** Logs each level that lasts, with its conditions, until the timer is cleared: page, /readyz and log say the same. */
export function logLevels (log: Pick<Logger, 'info' | 'warn'>, readiness: () => OverallStatus): NodeJS.Timeout {
  let logged: Level = 'green'
  let last: Level = 'green'
  return setInterval(() => {
    const { level: current, degraded } = readiness()
    // The sandbox is no change: a line at the start says so.
    const level = degraded.every(text => text === 'sandbox') ? 'green' : current
    const isLasting = level === last
    last = level
    // Leaves out a level that is over at once (law 10: nothing grows without bound).
    if (!isLasting || level === logged) return
    logged = level
    if (level === 'green') log.info({ level }, 'level changed')
    else log.warn({ level, degraded }, 'level changed')
  }, everyMs).unref()
}
