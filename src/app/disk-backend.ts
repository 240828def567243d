import { join } from 'node:path'
import { type Logger } from 'pino'
import { DiskFiles, makeFolder, folderMode } from '../cache/disk-files.js'
import { DiskKeeper, type LogSettings } from '../cache/disk-keeper.js'
import { DiskTier } from '../cache/disk-tier.js'
import { type Config } from '../config/schema.js'
import { bytesPerGb, bytesPerMb } from '../config/units.js'
import { type Metrics } from '../metrics/metrics.js'
import { HostRecords } from '../peers/records.js'
import { type EntryLog } from '../peers/ipc-carrier.js'
import { withTimeout } from '../with-timeout.js'
import { type BackendParts, type StoreBackend } from './store-backend.js'
import { isSame, logName, openFolder, lockFolder, type OpenFolder, ownerOf } from './disk-folder.js'
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { lstat, mkdir, readdir, readFile, rm, statfs } from 'node:fs/promises'

const repeatEveryMs = 500
// Limits how long a start waits for the index; the rest is read while clients are served.
const maxLoadMs = 3000
// A disk that hangs delays a stop by this at most.
const maxStopMs = 2000

/** Builds the disk tier on the log of this host, with the parts that keep its entries right. */
export function diskBackendOf (
  { settings, keeperFor, close }: EntryLog,
  { place, ...parts }: BackendParts
): StoreBackend & { readonly store: DiskTier } {
  const { config, tracker, spaces, now } = parts
  const words = settings.name === 'disk' ? 'disk' : 'shared memory'
  const store = new DiskTier({
    ...parts,
    ...settings,
    maxEntryBytes: config.cache.maxEntryMb * bytesPerMb,
    keeperFor,
    wallClockMs: () => performance.timeOrigin + now(),
    space: () => spaces.isIn(place) ? tracker.space : undefined
  })
  const timers: NodeJS.Timeout[] = []
  return {
    store,
    warnings: () => [
      ...(place.error === undefined ? [] : [`${words} rejects the state of the chain: ${place.error}`]),
      ...(tracker.space !== undefined && !spaces.isIn(place)
        ? [`${words} tier not read: no upstream has proven yet that its entries are of this chain`]
        : [])
    ],
    start: async () => {
      // Ignores a failure, which the tier has counted, because the next call tries again.
      timers.push(repeat(async () => await store.resume()))
      await withTimeout(maxLoadMs, store.load())
    },
    stop: async () => {
      timers.forEach(clearInterval)
      await close()
    }
  }
}

/** Log of this host, which this process keeps. */
export type OwnedEntryLog = EntryLog & { readonly keeper: DiskKeeper }

/**
 * Part of the cache memory for the log that workers share, if they do; the rest is for each worker's own hot entries.
 */
export const sharedPart = 3 / 4

/**
 * Opens the log of all processes that serve, on the disk or for workers in memory; undefined if no log is configured.
 */
export async function openEntryLog (
  { cache: { disk: { path, maxGb }, memory: { maxMb } }, workers }: Config,
  log: Logger,
  metrics: Metrics
): Promise<OwnedEntryLog | undefined> {
  if (path === null && workers === 1) return undefined
  const maxBytes = Math.floor(path === null ? maxMb * bytesPerMb * sharedPart : maxGb * bytesPerGb)
  const folder = await (path === null ? openSharedMemory(maxBytes, log) : openFolder(path, log))
  if (folder === undefined) return undefined
  const settings: LogSettings = {
    name: path === null ? 'shared' : 'disk',
    path: join(folder.path, logName),
    maxBytes,
    // Counts one more than the workers, because a reload starts one worker before it stops another.
    writers: workers === 1 ? 1 : workers + 1
  }
  try {
    await makeFolder(settings.path)
    const isMemory = settings.name === 'shared'
    const { diskFailed: onError, foundCorrupt } = metrics
    const records = new HostRecords(isMemory ? undefined : settings.path, () => onError('write'))
    if (!await records.open()) {
      foundCorrupt()
      log.warn('the record of the chains in cache.disk.path is damaged: its entries are not used')
    }
    const keeper = new DiskKeeper({
      ...settings,
      isMemory,
      files: new DiskFiles({ path: settings.path, onError }),
      foundCorrupt,
      onError
    })
    await keeper.open()
    const timers: NodeJS.Timeout[] = []
    let restoring = Promise.resolve()
    const restore = async (): Promise<void> => {
      await folder.restore()
      if (folder.isLost) {
        timers.forEach(clearInterval)
        keeper.giveUp()
        records.giveUp()
        return
      }
      // Makes removed files again.
      await keeper.restore()
      await records.restore()
    }
    timers.push(repeat(async () => await (restoring = restore())))
    return {
      settings,
      keeper,
      records,
      keeperFor: member => keeper.for(member),
      close: async () => {
        timers.forEach(clearInterval)
        // Waits for a restore in progress, or it would make files again after the folder is released.
        const closed = Promise.all([restoring.catch(() => {}), records.close(), keeper.close()])
        await withTimeout(
          maxStopMs,
          closed.then(async () => await folder.close())
        )
      }
    }
  } catch (error) {
    await folder.close()
    throw error
  }
}

/** Runs a task again and again, one run at a time; a failed run does not end the repetition. */
function repeat (task: () => Promise<void>): NodeJS.Timeout {
  let isRunning = false
  return setInterval(() => {
    if (isRunning) return
    isRunning = true
    task().catch(() => {}).finally(() => {
      isRunning = false
    })
  }, repeatEveryMs).unref()
}

const path = '/dev/shm'
// Magic number of tmpfs in statfs(2): a folder on any other file system may be on a disk.
const tmpfs = 0x01021994
const ownName = /^varve-(\d+)-(\d+)-[0-9a-f]{8}$/

/**
 * Makes a folder in memory for the log of all workers, which is removed when this process stops. Undefined if the
 * system has no room for it; a warning then says what to set.
 */
export async function openSharedMemory (bytes: number, log: Logger): Promise<OpenFolder | undefined> {
  try {
    const { type } = await statfs(path)
    if (type !== tmpfs) throw new Error(`${path} is not in memory`)
    await removeUnowned()
    const { bavail, bsize } = await statfs(path)
    if (bavail * bsize < bytes) throw new Error(`${path} has ${Math.floor(bavail * bsize / bytesPerMb)} MB free`)
    return await makeFolderOf(log)
  } catch (error) {
    const neededMb = Math.ceil(bytes / bytesPerMb)
    log.warn(
      { reason: (error as Error).message, neededMb },
      `each worker has a cache of its own, because ${path} cannot hold one for all: give it ${neededMb} MB ` +
        '(shm_size in Compose, an emptyDir of medium Memory in Kubernetes), and the container as much more memory'
    )
    return undefined
  }
}

async function makeFolderOf (log: Logger): Promise<OpenFolder> {
  const folder = join(path, `varve-${process.pid}-${await startTimeOf('self')}-${randomBytes(4).toString('hex')}`)
  // Fails if a file, a folder or a link has the name already.
  await mkdir(folder, folderMode)
  const lock = await lockFolder(folder).catch(async (error: unknown) => {
    await rm(folder, { recursive: true, force: true })
    throw error
  })
  const own = await lstat(folder)
  let isLost = false
  return {
    path: folder,
    get isLost () {
      return isLost
    },
    restore: async () => {
      if (isSame(await lstat(folder).catch(() => undefined), own)) return
      isLost = true
      log.error({ path: folder }, 'the memory that workers share was removed: each has its own cache until a restart')
    },
    close: async () => {
      // Removes the log before its lock, because no later start would remove a log without a lock.
      if (!isLost) await rm(join(folder, logName), { recursive: true, force: true })
      await lock.close()
      if (!isLost) await rm(folder, { recursive: true, force: true })
    }
  }
}

/**
 * Removes folders that ended processes of this user left. A folder without a lock was just made or is empty, so it
 * stays.
 */
async function removeUnowned (): Promise<void> {
  for (const name of await readdir(path)) {
    const [, pid, started] = ownName.exec(name) ?? []
    const folder = join(path, name)
    if (pid === undefined || started === await startTimeOf(pid).catch(() => undefined)) continue
    const found = await lstat(folder).catch(() => undefined)
    if (found?.isDirectory() !== true || found.uid !== process.getuid?.()) continue
    const lock = join(folder, 'lock')
    if (!existsSync(lock)) continue
    // Asks the socket too: a process in another container has its own process numbers, but its socket can be reached.
    if (await ownerOf(lock) !== undefined) continue
    await rm(folder, { recursive: true, force: true })
  }
}

/** Returns when a process started, in ticks since the start of the system. */
async function startTimeOf (pid: string): Promise<string> {
  const text = await readFile(`/proc/${pid}/stat`, 'latin1')
  // The name of a process may have spaces and parentheses.
  return text.slice(text.lastIndexOf(')')).split(' ')[20] as string
}
