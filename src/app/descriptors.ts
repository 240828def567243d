import { closeSync, openSync, readFileSync } from 'node:fs'
import { devNull } from 'node:os'
import { type Logger } from 'pino'
import { type Config } from '../config/schema.js'

// Default where the system does not report a limit; nearly every system grants at least this many.
const defaultDescriptors = 1024

const checkEveryMs = 1000

/**
 * Reports file descriptor exhaustion, which nothing else shows: the system closes connections before varve sees them.
 * The returned function stops the check.
 */
export function watchDescriptors (
  log: Logger,
  onExhausted: () => void,
  hasDescriptor = isDescriptorLeft,
  everyMs = checkEveryMs
): () => void {
  let isExhausted = false
  const timer = setInterval(() => {
    const wasExhausted = isExhausted
    isExhausted = !hasDescriptor()
    if (isExhausted === wasExhausted) return
    if (isExhausted) {
      onExhausted()
      log.error('no file descriptor left: new connections are closed until others end (ulimit -n)')
    } else log.info('file descriptors available again')
  }, everyMs).unref()
  return () => {
    clearInterval(timer)
  }
}

/** Opens and closes a file in this thread, because a descriptor used by another one could be missing for Node.js. */
export function isDescriptorLeft (): boolean {
  try {
    closeSync(openSync(devNull, 'r'))
    return true
  } catch {
    return false
  }
}

/** Limit of file descriptors; Node.js has already raised the soft limit as far as allowed at start. */
export function maxDescriptorsOfProcess (file = '/proc/self/limits'): number {
  try {
    const soft = /^Max open files +(\d+)/m.exec(readFileSync(file, 'utf8'))?.[1]
    return soft === undefined ? defaultDescriptors : Number(soft)
  } catch {
    return defaultDescriptors
  }
}

// Listeners, admin clients, Redis, the log, channels between processes, and files open for a short time.
const reservedDescriptors = 128
// A process with very few descriptors still serves some clients.
const minConnections = 16
// Idle connections use memory too, so a higher limit must be configured.
const maxConnections = 32_768

/** Connection limit of one process; `isReduced` if file descriptors allow fewer connections than configured. */
interface ConnectionLimit {
  readonly limit: number
  readonly isReduced: boolean
}

/** Reserves descriptors for upstream connections first; without them a healthy upstream would look down. */
export function connectionLimitFor (
  { limits: { connections }, upstreams }: Config,
  descriptors = maxDescriptorsOfProcess()
): ConnectionLimit {
  const upstreamConnections = upstreams.reduce((sum, { maxConcurrent }) => sum + maxConcurrent, 0)
  const free = Math.max(minConnections, descriptors - upstreamConnections - reservedDescriptors)
  return { limit: Math.min(connections ?? maxConnections, free), isReduced: connections !== null && connections > free }
}
