/**
 * What a promise brings, or undefined when it takes too long; it goes on then, but nobody waits for it. What came in
 * while the process stood still is not too late.
 */
export async function within<T> (ms: number, promise: Promise<T>): Promise<T | undefined> {
  let inTime = (): void => {}
  const late = new Promise<undefined>(resolve => {
    inTime = whenLate(ms, () => {
      resolve(undefined)
    })
  })
  return await Promise.race([promise, late]).finally(inTime)
}

/**
 * Tells that something is late, unless what it gives is called before: also for what has come by then, since timers
 * have their turn before sockets are read, and it was not the other side that was slow.
 */
export function whenLate (ms: number, tell: () => void): () => void {
  let isInTime = false
  const timer = setTimeout(() => {
    setImmediate(() => {
      if (!isInTime) tell()
    })
  }, ms)
  return () => {
    isInTime = true
    clearTimeout(timer)
  }
}
