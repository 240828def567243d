import { readFileSync } from 'node:fs'
import { type Config } from '../config/schema.js'

/** Connection limit of one process; `isReduced` if file descriptors allow fewer connections than configured. */
export interface ConnectionLimit {
  readonly limit: number
  readonly isReduced: boolean
}

// Default where the system does not report a limit; nearly every system grants at least this many.
const defaultDescriptors = 1024
// Listeners, admin clients, Redis, the log, channels between processes, and files open for a short time.
const reservedDescriptors = 128
// A process with very few descriptors still serves some clients.
const minConnections = 16
// Idle connections use memory too, so a higher limit must be configured.
const maxConnections = 32_768

/** Reserves descriptors for upstream connections first; without them a healthy upstream would look down. */
export function connectionLimitFor (
  { limits: { connections }, upstreams }: Config,
  descriptors = maxDescriptorsOfProcess()
): ConnectionLimit {
  const upstreamConnections = upstreams.reduce((sum, { maxConcurrent }) => sum + maxConcurrent, 0)
  const free = Math.max(minConnections, descriptors - upstreamConnections - reservedDescriptors)
  return { limit: Math.min(connections ?? maxConnections, free), isReduced: connections !== null && connections > free }
}

// A share of the memory tier, but at least eight entries of the default maximum size.
const inFlightShare = 0.25
const minInFlightBytes = 64 * 1024 * 1024

/** Limits the memory of responses that clients have not read yet, per process (law 10). */
export function maxInFlightBytesFor ({ cache: { memory } }: Config): number {
  return Math.max(minInFlightBytes, memory.maxMb * 1024 * 1024 * inFlightShare)
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
