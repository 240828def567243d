import { setTimeout as pause } from 'node:timers/promises'
import { startIdleMeter } from './idle-meter.js'

// So much longer it may be where other processes have most of the processor's time.
const patience = 4

/**
 * Waits until it is true, asking again every few milliseconds; a fault counts as not yet. What this process waits for
 * its turn is no part of the limit.
 */
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
    if (idle() > limitMs || performance.now() - began > patience * limitMs) {
      throw new Error(`after ${limitMs} ms still not: ${what}`, { cause: fault })
    }
    await pause(10)
  }
}
