import { readFileSync } from 'node:fs'
import { type Config } from '../config/schema.js'

/**
 * How many connections of clients a process may hold, and whether the configuration asks for more than its descriptors
 * allow.
 */
export interface Places {
  readonly limit: number
  readonly isCut: boolean
}

// Where the system does not tell: what it gives a process at least, nearly everywhere.
const usual = 1024
// Listeners, the admin listener's clients, Redis, the log, channels between processes, and files that are read for a
// moment.
const others = 128
// Whoever has very few descriptors is to serve somebody all the same.
const least = 16
// A connection takes memory too, though it be idle: whoever wants more of them says so.
const most = 32_768

/**
 * What is left for clients of a process's descriptors: without one left, a node could not be asked, and would be taken
 * for down.
 */
export function placesFor (
  { limits: { connections }, upstreams }: Config,
  descriptors = descriptorsOfProcess()
): Places {
  const nodes = upstreams.reduce((sum, { maxConcurrent }) => sum + maxConcurrent, 0)
  const free = Math.max(least, descriptors - nodes - others)
  return { limit: Math.min(connections ?? most, free), isCut: connections !== null && connections > free }
}

// Of the memory that the cache may have, and not less than eight entries of the usual largest size.
const inFlightShare = 0.25
const leastInFlightBytes = 64 * 1024 * 1024

/** How much memory may be held by responses that clients have yet to take, in this process. */
export function inFlightBytesFor ({ cache: { memory } }: Config): number {
  return Math.max(leastInFlightBytes, memory.maxMb * 1024 * 1024 * inFlightShare)
}

/** How many descriptors this process may have; Node has raised that as far as it could when it started. */
export function descriptorsOfProcess (file = '/proc/self/limits'): number {
  try {
    const soft = /^Max open files +(\d+)/m.exec(readFileSync(file, 'utf8'))?.[1]
    return soft === undefined ? usual : Number(soft)
  } catch {
    return usual
  }
}
