import { inFlightMbOf } from '../../src/config/in-flight-budget.js'
import { type Config } from '../../src/config/schema.js'

// Node.js and varve without any traffic, for each process.
const processMb = 100
// Measured (bench/NOTES.md): entries at their charged size, parsed requests, and what the collector has not freed yet.
const cacheFactor = 1.75

/** Returns the memory in MB that all processes of a configuration need: the formula of docs and manifests. */
export function memoryNeededMb (config: Config): number {
  const { workers, cache: { memory } } = config
  const processes = workers === 1 ? 1 : workers + 1
  return Math.ceil(processMb * processes + cacheFactor * memory.maxMb + inFlightMbOf(config))
}
