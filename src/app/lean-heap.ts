import { setFlagsFromString } from 'node:v8'

// By how much the heap may grow before it is collected again, in percent; V8 would let it double or more.
const growthPercent = 20

/**
 * Has the collector keep the heap close to what is alive in it, from now on. Most of that is the cache, which an
 * operator has given a size; what is evicted from it would pile up to as much again. Hits make nothing that lives that
 * long and pay nothing for it; misses do, so it has its time when the cache fills up and not before (bench/NOTES.md).
 */
export function keepHeapLean (): void {
  setFlagsFromString(`--heap-growing-percent=${growthPercent}`)
}
