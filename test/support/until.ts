import { setTimeout as pause } from 'node:timers/promises'

// Pauses grow with the wait, since most conditions are requests that cost processor time.
const shortestMs = 10
const longestMs = 100
const shareOfWait = 0.05
// Factor of the limit while other processes use most of the processor.
const busyFactor = 4

/** Waits until a condition is true; an error counts as not yet. The limit excludes time without the processor. */
export async function until (isTrue: () => Promise<boolean> | boolean, what: string, limitMs = 15_000): Promise<void> {
  const began = performance.now()
  const idle = startIdleMeter()
  for (;;) {
    let fault: unknown
    try {
      if (await isTrue()) return
    } catch (error) {
      fault = error
    }
    if (idle() > limitMs || performance.now() - began > busyFactor * limitMs) {
      throw new Error(`after ${limitMs} ms still not: ${what}`, { cause: fault })
    }
    await pause(Math.min(longestMs, shortestMs + shareOfWait * (performance.now() - began)))
  }
}

/** Measures this process's idle time from now: the part of a wait that was not spent on the processor. */
export function startIdleMeter (): () => number {
  const from = performance.eventLoopUtilization()
  return () => performance.eventLoopUtilization(from).idle
}
