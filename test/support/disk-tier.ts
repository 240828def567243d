import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type Test } from 'tap'
import { DiskFiles, type DiskOperation } from '../../src/cache/disk-files.js'
import { DiskEvictor } from '../../src/cache/disk-evictor.js'
import { DiskTier } from '../../src/cache/disk-tier.js'

/** A disk tier on its own, with a record of its work. */
export interface TestDiskTier {
  readonly tier: DiskTier
  readonly files: DiskFiles
  readonly evictor: DiskEvictor
  readonly counts: { written: number, corrupt: number, dropped: number, evicted: number, failed: DiskOperation[] }
  /** Folder with the entries; undefined hides the tier. */
  space: string | undefined
  /** Added to the wall clock. */
  clockMs: number
}

/** Opens a disk tier in a folder as a process would. */
export async function openDiskTier (t: Test, path: string, maxBytes: number): Promise<TestDiskTier> {
  await mkdir(join(path, 'tmp'), { recursive: true })
  await mkdir(join(path, 'entries'), { recursive: true })
  const counts: TestDiskTier['counts'] = { written: 0, corrupt: 0, dropped: 0, evicted: 0, failed: [] }
  const now = (): number => performance.now()
  const opened = { counts, space: 'space', clockMs: 0 }
  const wallClockMs = (): number => performance.timeOrigin + now() + opened.clockMs
  const maxEntryBytes = 8 * 1024 * 1024
  const files = new DiskFiles({ path, maxEntryBytes, wallClockMs, onError: operation => counts.failed.push(operation) })
  const evictor = new DiskEvictor({
    path,
    maxBytes,
    knownSize: undefined,
    evicted: () => {
      counts.evicted++
    },
    onError: () => counts.failed.push('scan')
  })
  await evictor.count()
  const tier = new DiskTier({
    files,
    room: evictor,
    maxEntryBytes,
    metrics: {
      wrote: () => {
        counts.written++
      },
      foundCorrupt: () => {
        counts.corrupt++
      },
      dropped: () => {
        counts.dropped++
      }
    },
    holdQueued: () => ({ release: () => {} }),
    now,
    wallClockMs,
    space: () => opened.space,
    renewSpace: async () => {
      opened.space += '-next'
    }
  })
  t.teardown(async () => {
    await tier.close()
    await evictor.close()
  })
  return Object.assign(opened, { tier, files, evictor })
}
