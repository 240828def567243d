/** What a promise brings, or undefined when it takes too long; it goes on then, but nobody waits for it. */
export async function within<T> (ms: number, promise: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<undefined>(resolve => { timer = setTimeout(resolve, ms, undefined) })
  return await Promise.race([promise, late]).finally(() => { clearTimeout(timer) })
}
