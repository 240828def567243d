import { appendFileSync, existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test } from 'tap'
import { indexBytesPerEntry, maxEntriesOf } from '../../src/cache/disk-tier.js'
import { bytesPerGb, bytesPerMb, inFlightMbOf } from '../../src/config/units.js'
import { type Config } from '../../src/config/schema.js'

// Node.js and varve without any traffic, for each process.
const processMb = 100
// Last-touched table of each process that serves reads.
const followMb = 17
// Measured (bench/NOTES.md): entries at their charged size, parsed requests, and what the collector has not freed yet.
const cacheFactor = 1.75

/** Returns the memory in MB that all processes of a configuration need: the formula of docs and manifests. */
export function memoryNeededMb (config: Config): number {
  const { workers, cache: { memory, disk }, follow: { mode } } = config
  const processes = workers === 1 ? 1 : workers + 1
  const indexMb = disk.path === null ? 0 : maxEntriesOf(disk.maxGb * bytesPerGb) * indexBytesPerEntry / bytesPerMb
  return Math.ceil(
    processMb * processes + ((mode === 'off' ? 0 : followMb) + indexMb) * workers + cacheFactor * memory.maxMb +
      inFlightMbOf(config)
  )
}

/** A memory cgroup with a hard limit: the kernel ends a process in it that needs more. */
export interface MemoryCgroup {
  /** File that a process writes its id to. */
  readonly processesFile: string
  /** Highest use so far in MB. */
  maxMb(): number
}

const root = '/sys/fs/cgroup'
let made = 0

/** Makes a memory cgroup; undefined if this process may not. */
export function makeMemoryCgroup (t: Test, limitMb: number): MemoryCgroup | undefined {
  const name = `varve-test-${process.pid}-${++made}`
  const isSecond = existsSync(join(root, 'cgroup.controllers'))
  const folder = isSecond ? join(root, name) : join(root, 'memory', name)
  const [limitFile, maxFile] = isSecond
    ? ['memory.max', 'memory.peak']
    : ['memory.limit_in_bytes', 'memory.max_usage_in_bytes']
  try {
    mkdirSync(folder)
    writeFileSync(join(folder, limitFile), String(limitMb * 1024 * 1024))
    appendFileSync(join(folder, 'cgroup.procs'), '')
  } catch {
    return undefined
  }
  t.teardown(() => {
    try {
      rmdirSync(folder)
    } catch {
      // Its processes may still end.
    }
  })
  return {
    processesFile: join(folder, 'cgroup.procs'),
    maxMb: () => Number(readFileSync(join(folder, maxFile), 'utf8')) / 1024 / 1024
  }
}
