import { closeSync, openSync } from 'node:fs'
import { devNull } from 'node:os'
import { type Logger } from 'pino'

const lookEveryMs = 1000

/**
 * Tells when the process has no file descriptor left, and when it has again: the system closes connections then before
 * varve hears of them, so that nothing else would show it. Ends with the function that it gives back.
 */
export function watchDescriptors (
  log: Logger,
  onExhausted: () => void,
  isOneLeft = isDescriptorLeft,
  everyMs = lookEveryMs
): () => void {
  let isOut = false
  const timer = setInterval(() => {
    const wasOut = isOut
    isOut = !isOneLeft()
    if (isOut === wasOut) return
    if (isOut) {
      onExhausted()
      log.error('no file descriptor is left: new connections are closed unanswered until others end (ulimit -n)')
    } else log.info('there are file descriptors again')
  }, everyMs).unref()
  return () => {
    clearInterval(timer)
  }
}

/**
 * Whether there is a descriptor. In this thread, since one that another takes at the wrong moment is one that Node
 * misses itself.
 */
export function isDescriptorLeft (): boolean {
  try {
    closeSync(openSync(devNull, 'r'))
    return true
  } catch {
    return false
  }
}
