/**
 * How long this process has had nothing to do from here on until it is asked: of what a client waited for, what it did
 * not wait for the processor, of which other processes may have all.
 */
export function startIdleMeter (): () => number {
  const from = performance.eventLoopUtilization()
  return () => performance.eventLoopUtilization(from).idle
}
