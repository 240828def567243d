import { type Config } from '../config/schema.js'
import { maxDescriptorsOfProcess } from './descriptors.js'

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
