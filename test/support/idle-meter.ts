/** Measures this process's idle time from now: the part of a wait that was not spent on the processor. */
export function startIdleMeter (): () => number {
  const from = performance.eventLoopUtilization()
  return () => performance.eventLoopUtilization(from).idle
}
