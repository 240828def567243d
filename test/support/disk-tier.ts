import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate as pause } from 'node:timers/promises'
import { type Test } from 'tap'
import { DiskFiles, type DiskOperation } from '../../src/cache/disk-files.js'
import { DiskEvictor } from '../../src/cache/disk-evictor.js'
import { DiskTier } from '../../src/cache/disk-tier.js'
import { startCommand } from '../cli/command.js'
import { type Sandbox, startSandbox } from '#sandbox'
import { cacheStatusHeader } from './cache-status.js'
import { sendRequest } from './client.js'
import { until } from './until.js'
import { type ConfigChange, type TestVarve, varveAt } from './varve.js'
import { type EntrySelector, type FoundEntry } from '../../src/cache/tier.js'

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

/** Token of the admin listener. */
export const token = 't0ken'
/** A read that is one entry. */
export const modules = '/v1/accounts/0x1/modules?ledger_version=1500'
/** A read whose entry has an interval. */
export const blockByVersion = '/v1/blocks/by_version/1500'
/** Cache-Status of a hit on the disk. */
export const diskHit = 'varve; hit; detail=disk'

/** Starts the embedded node; another seed is another chain with the same chain id. */
export async function startNode (t: Test, seed = 1, port?: number): Promise<Sandbox> {
  const node = await startSandbox({ blockMs: 0, seed, ...(port !== undefined && { port }) })
  t.teardown(async () => {
    await node.close()
  })
  return node
}

/** Starts varve with its disk tier in a folder. */
export async function startAt (t: Test, url: string, path: string, change: ConfigChange = {}): Promise<TestVarve> {
  return await varveAt(t, url, {
    admin: { listen: '127.0.0.1:0', token },
    ...change,
    cache: { ...change.cache, disk: { path, maxGb: 0.1 } }
  })
}

/** Reads targets, one after another, until each is on the disk. */
export async function store (varve: TestVarve, targets: readonly string[]): Promise<void> {
  const written = async (): Promise<number> => await varve.metric('varve_cache_writes_total{tier="disk"}') ?? 0
  for (const target of targets) {
    const before = await written()
    await varve.get(target)
    await until(async () => await written() > before, `${target} is on the disk`)
  }
}

/** Returns the Cache-Status of a response. */
export async function statusOf (varve: TestVarve, target: string): Promise<unknown> {
  return (await varve.get(target)).headers[cacheStatusHeader]
}

/** Lists what /readyz says is degraded. */
export async function degraded (varve: TestVarve): Promise<string[]> {
  return (JSON.parse((await sendRequest(varve.adminUrl, '/readyz')).body) as { degraded: string[] }).degraded
}

/** Runs varve with an empty folder until some targets are on the disk; returns the responses. */
export async function fill (
  t: Test,
  url: string,
  path: string,
  targets = [modules, blockByVersion]
): Promise<string[]> {
  const varve = await startAt(t, url, path)
  await store(varve, targets)
  const bodies = []
  for (const target of targets) bodies.push((await varve.get(target)).body)
  await varve.stop({ drainMs: 0 })
  return bodies
}

/** Starts varve on a folder that it does not use; returns its sentence without the beginning. */
export async function refusal (t: Test, url: string, folder: string): Promise<string> {
  const free = ['--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0']
  const command = startCommand(t, ['--upstream', url, '--disk', folder, ...free])
  t.equal(await command.code, 1)
  const [text, start] = [command.err(), `varve: cache.disk.path ${folder} cannot be used: `]
  t.ok(text.startsWith(start) && text.indexOf('\n') === text.length - 1, text)
  return text.slice(start.length).trim()
}

/** Looks up an entry, again if a busy machine was too slow for the time limit of reads. */
export async function getInTime (
  { tier, counts }: TestDiskTier,
  selector: EntrySelector
): Promise<FoundEntry | undefined> {
  const failedReads = (): number => counts.failed.filter(operation => operation === 'read').length
  for (;;) {
    const before = failedReads()
    const found = await tier.get(selector)
    if (found !== undefined || failedReads() === before) return found
    await pause()
  }
}
