import { setTimeout as pause } from 'node:timers/promises'

/** Waits until it is true, asking again every few milliseconds; a fault counts as not yet. */
export async function until (isTrue: () => Promise<boolean> | boolean, what: string, limitMs = 15_000): Promise<void> {
  const end = performance.now() + limitMs
  for (;;) {
    let fault: unknown
    try {
      if (await isTrue()) return
    } catch (error) {
      fault = error
    }
    if (performance.now() > end) throw new Error(`after ${limitMs} ms still not: ${what}`, { cause: fault })
    await pause(10)
  }
}
