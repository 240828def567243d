/** Resolves with a promise's value, or with undefined after the timeout; the promise's own work goes on. */
export async function withTimeout<T> (ms: number, promise: Promise<T>): Promise<T | undefined> {
  let cancel = (): void => {}
  const timeout = new Promise<undefined>(resolve => {
    cancel = onTimeout(ms, () => resolve(undefined))
  })
  return await Promise.race([promise, timeout]).finally(cancel)
}

/**
 * Calls back after a time unless cancelled. Timers run before sockets are read, so pending input is read before the
 * timeout is declared.
 */
export function onTimeout (ms: number, callback: () => void): () => void {
  let isCancelled = false
  const timer = setTimeout(() =>
    setImmediate(() => {
      if (!isCancelled) callback()
    }), ms)
  return () => {
    isCancelled = true
    clearTimeout(timer)
  }
}
