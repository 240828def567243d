import { closeSync, openSync } from 'node:fs'
import { devNull } from 'node:os'
import { type Logger } from 'pino'

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
