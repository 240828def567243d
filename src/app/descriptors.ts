import { closeSync, openSync, readFileSync } from 'node:fs'
import { devNull } from 'node:os'
import { type Logger } from 'pino'

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
