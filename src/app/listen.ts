import { lookup } from 'node:dns/promises'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { chmod, rm, stat } from 'node:fs/promises'
import { connect } from 'node:net'
import { devNull } from 'node:os'
import { type FastifyInstance } from 'fastify'
import { type Logger } from 'pino'
import { type Config } from '../config/schema.js'
import { hostAndPort, socketPathOf } from '../config/value-checks.js'

/** Opens a listener; an error names the key that configures the address. */
export async function listenOn (app: FastifyInstance, address: string, key: string): Promise<string> {
  try {
    const socketPath = socketPathOf(address)
    if (socketPath !== undefined) {
      await app.listen({ path: socketPath })
      await openToAll(socketPath)
      return address
    }
    const { host, port } = hostAndPort(address)
    // Fastify opens a second server for localhost without our settings if it resolves to two addresses, so one address
    // is chosen.
    return await app.listen({ host: (await lookup(host)).address, port })
  } catch (error) {
    throw listenError(address, { key, flag: key === 'listen' ? '--listen' : '--admin' }, error as Error)
  }
}

const adviceByCode: Readonly<Record<string, string>> = {
  EADDRINUSE: 'stop the process that listens there, or choose another address with FLAG (port 0 picks a free port)',
  EACCES: 'ports below 1024 need a privilege: choose a higher one with FLAG',
  EADDRNOTAVAIL: 'this machine does not have that address: use FLAG with 0.0.0.0 for all its addresses',
  ENOTFOUND: 'DNS lookup failed: give an IP address with FLAG',
  EAI_AGAIN: 'DNS lookup failed temporarily: retry, or give an IP address with FLAG'
}

/** Builds the error for an address that cannot be opened, with advice; `key` and `flag` name the setting. */
export function listenError (
  address: string,
  { key, flag }: { readonly key: string, readonly flag: string },
  error: Error
): Error {
  const { code = '' } = error as NodeJS.ErrnoException
  const advice = adviceByCode[code]
  return new Error(
    `cannot listen on ${address} (${key}): ${error.message}${
      advice === undefined ? '' : `; ${advice.replace('FLAG', flag)}`
    }`,
    { cause: error }
  )
}

// Lets every user connect, as nginx does: the permissions of the folder decide who may.
const socketMode = 0o666

/** Removes the socket that a killed process left; a socket in use stays, and so does any other file. */
export async function removeStaleSocket (path: string): Promise<void> {
  const found = await stat(path).catch(() => undefined)
  if (found?.isSocket() === true && !await isInUse(path)) await rm(path, { force: true })
}

/** Lets every user who reaches the folder connect: a proxy in front of varve often runs as another user. */
export async function openToAll (path: string): Promise<void> {
  await chmod(path, socketMode)
}

async function isInUse (path: string): Promise<boolean> {
  return await new Promise(resolve => {
    const connection = connect(path)
    connection.once('connect', () => {
      connection.destroy()
      resolve(true)
    }).once('error', (error: NodeJS.ErrnoException) => resolve(error.code !== 'ECONNREFUSED'))
  })
}

// Default if the system does not report a limit; nearly every system grants at least this many.
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
  return () => clearInterval(timer)
}

/** Opens and closes a file in this thread, because a descriptor that another thread takes could be the last one. */
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

// Reserves descriptors for listeners, admin clients, Redis, the log, channels between processes, and files open for a
// short time.
const reservedDescriptors = 128
// Serves some clients even if the process has very few descriptors.
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
