import { inFlightMbOf } from '../../src/config/in-flight-memory.js'
import { type Config } from '../../src/config/schema.js'

// Node.js and varve without any traffic, for each process.
const processMb = 100
// Last-touched table of each process that serves reads; and observations, measured with long keys.
const followMb = { off: 0, observe: 45, on: 17 }
// Measured (bench/NOTES.md): entries at their charged size, parsed requests, and what the collector has not freed yet.
const cacheFactor = 1.75

/** Returns the memory in MB that all processes of a configuration need: the formula of docs and manifests. */
export function memoryNeededMb (config: Config): number {
  const { workers, cache: { memory }, follow: { mode } } = config
  const processes = workers === 1 ? 1 : workers + 1
  return Math.ceil(
    processMb * processes + followMb[mode] * workers + cacheFactor * memory.maxMb + inFlightMbOf(config)
  )
}
