/**
 * What a promise brings, or undefined when it takes too long; it goes on then, but nobody waits for it. What came in while the process
 * stood still is not too late.
 */
export async function within<T> (ms: number, promise: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<undefined>(resolve => { timer = whenLate(ms, () => { resolve(undefined) }) })
  return await Promise.race([promise, late]).finally(() => { clearTimeout(timer) })
}

/** Tells that something is late, but for what has come by then: timers have their turn before sockets are read, and it was not the other side that was slow. */
export function whenLate (ms: number, tell: () => void): NodeJS.Timeout {
  return setTimeout(() => { setImmediate(tell) }, ms)
}
