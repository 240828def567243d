import { setFlagsFromString } from 'node:v8'

// Heap growth in percent before the next collection; V8 would allow it to double or more.
const growthPercent = 20

/**
 * Keeps the heap close to its live size, because evicted entries would otherwise accumulate. Hits pay nothing; misses
 * pay (bench/NOTES.md).
 */
export function keepHeapLean (): void {
  setFlagsFromString(`--heap-growing-percent=${growthPercent}`)
}
