/**
 * What a promise brings, or undefined when it takes too long; it goes on then, but nobody waits for it. What came in while the process
 * stood still is not too late: timers have their turn before sockets are read, and it is not the other side that was slow.
 */
export async function within<T> (ms: number, promise: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<undefined>(resolve => { timer = setTimeout(() => { setImmediate(resolve, undefined) }, ms) })
  return await Promise.race([promise, late]).finally(() => { clearTimeout(timer) })
}
