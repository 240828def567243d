import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as pause } from 'node:timers/promises'
import { type Test } from 'tap'
import { DiskFiles, type DiskOperation } from '../../src/cache/disk-files.js'
import { DiskKeeper, type LogKeeper, type LogMember } from '../../src/cache/disk-keeper.js'
import { decodeHeader, decodeRecord, frameBytes } from '../../src/cache/disk-segment.js'
import { DiskTier } from '../../src/cache/disk-tier.js'
import { type StoreSpace } from '../../src/cache/tier.js'
import { InFlightBytes } from '../../src/upstreams/in-flight-bytes.js'
import { startCommand } from '../cli/command.js'
import { type Sandbox, startSandbox } from '#sandbox'
import { cacheStatusHeader } from './cache-status.js'
import { sendRequest } from './client.js'
import { space } from './redis-tier.js'
import { until } from './until.js'
import { type ConfigChange, type TestVarve, varveAt } from './varve.js'

/** A disk tier on its own, with a record of its work. */
export interface TestDiskTier {
  readonly tier: DiskTier
  readonly keeper: DiskKeeper
  readonly counts: { written: number, corrupt: number, dropped: number, evicted: number, failed: DiskOperation[] }
  /** Space of the folder; undefined hides the tier. */
  space: StoreSpace | undefined
  /** Added to the wall clock. */
  clockMs: number
}

/** Log that a disk tier shares with others. */
export interface SharedLog {
  readonly writers: number
  readonly keeper?: DiskKeeper
  /** Returns what the tier calls instead of the methods of the keeper. */
  readonly keeperFor?: (member: LogMember) => LogKeeper
}

/** Log of a process that takes the list it joins with over only after something else has happened. */
export function logWhereMeanwhile (keeper: DiskKeeper, happens: (member: LogMember) => Promise<void>): SharedLog {
  return {
    writers: 1,
    keeper,
    keeperFor: member => ({
      ...keeper.for(member),
      joinLog: async () => {
        const joined = await keeper.for(member).joinLog()
        await happens(member)
        return joined
      }
    })
  }
}

/** Opens a disk tier in a folder as a process would. */
export async function openDiskTier (
  t: Test,
  path: string,
  maxBytes: number,
  isLoaded = true,
  { writers, keeper: sharedKeeper, keeperFor }: SharedLog = { writers: 1 }
): Promise<TestDiskTier> {
  const counts: TestDiskTier['counts'] = { written: 0, corrupt: 0, dropped: 0, evicted: 0, failed: [] }
  const now = (): number => performance.now()
  const opened: Omit<TestDiskTier, 'tier' | 'keeper'> = { counts, space, clockMs: 0 }
  const onError = (operation: DiskOperation): void => {
    counts.failed.push(operation)
  }
  const keeper = sharedKeeper ?? new DiskKeeper({
    path,
    maxBytes,
    writers,
    files: new DiskFiles({ path, onError }),
    foundCorrupt: () => {
      counts.corrupt++
    },
    onError
  })
  if (sharedKeeper === undefined) await keeper.open()
  const tier = new DiskTier({
    name: 'disk',
    path,
    maxBytes,
    writers,
    keeperFor: keeperFor ?? (member => keeper.for(member)),
    maxEntryBytes: 8 * 1024 * 1024,
    metrics: {
      wrote: () => {
        counts.written++
      },
      evicted: () => {
        counts.evicted++
      },
      foundCorrupt: () => {
        counts.corrupt++
      },
      dropped: () => {
        counts.dropped++
      },
      diskFailed: onError
    },
    inFlight: new InFlightBytes(Infinity, now),
    now,
    wallClockMs: () => performance.timeOrigin + now() + opened.clockMs,
    space: () => opened.space
  })
  t.teardown(async () => {
    await tier.close()
    await keeper.close()
  })
  if (isLoaded) await tier.load()
  return Object.assign(opened, { tier, keeper })
}

/** Lists the segments of a folder, oldest first. */
export function segmentsIn (path: string): string[] {
  return readdirSync(path).filter(name => name.endsWith('.segment')).sort().map(name => join(path, name))
}

/** Lists the records of a segment: where they begin, and how long they are. */
export function recordsIn (segment: Buffer): { readonly offset: number, readonly length: number }[] {
  const found = []
  for (let offset = decodeHeader(segment)?.length ?? Infinity; decodeRecord(segment.subarray(offset)) !== undefined;) {
    const length = frameBytes + segment.readUInt32BE(offset)
    found.push({ offset, length })
    offset += length
  }
  return found
}

/** Token of the admin listener. */
export const token = 't0ken'

/** Purges as an operator does; resolves with the status. */
export async function purge (varve: Pick<TestVarve, 'adminUrl'>, what: object): Promise<number> {
  const { status } = await sendRequest(varve.adminUrl, '/purge', {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
    body: JSON.stringify(what)
  })
  return status
}
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
export async function startAt (
  t: Test,
  url: string,
  path: string,
  change: ConfigChange = {},
  maxGb = 0.1
): Promise<TestVarve> {
  return await varveAt(t, url, {
    admin: { listen: '127.0.0.1:0', token },
    ...change,
    cache: { ...change.cache, disk: { path, maxGb } }
  })
}

/** Reads targets, one after another, until each is on the disk. */
export async function store (varve: TestVarve, targets: readonly string[]): Promise<void> {
  const written = async (): Promise<number> => await varve.metric('varve_cache_writes_total{tier="disk"}') ?? 0
  await until(
    async () => !(await degraded(varve)).some(text => text.startsWith('disk tier not read')),
    'an upstream has proven the chain'
  )
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
export async function getInTime<T> (
  { counts }: TestDiskTier,
  look: () => Promise<T | undefined>
): Promise<T | undefined> {
  const failedReads = (): number => counts.failed.filter(operation => operation === 'read').length
  for (;;) {
    const before = failedReads()
    const found = await look()
    if (found !== undefined || failedReads() === before) return found
    await pause()
  }
}
