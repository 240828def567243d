import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { lstat, mkdir, readdir, readFile, rm, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { type Logger } from 'pino'
import { folderMode } from '../cache/disk-files.js'
import { bytesPerMb } from '../config/units.js'
import { lockFolder, logName, type OpenFolder, ownerOf } from './disk-folder.js'

const path = '/dev/shm'
// The magic number of tmpfs in statfs(2): nothing else is known to be memory.
const tmpfs = 0x01021994
const ownName = /^varve-(\d+)-(\d+)-[0-9a-f]{8}$/
const checkEveryMs = 500

/**
 * Makes a folder in memory for the log of all workers, which goes with this process; undefined, with a warning that
 * says what to set, where the system has no room for it.
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
  // Fails if anything has the name, a link too.
  await mkdir(folder, folderMode)
  const lock = await lockFolder(folder).catch(async (error: unknown) => {
    await rm(folder, { recursive: true, force: true })
    throw error
  })
  const { ino, birthtimeMs } = await lstat(folder)
  let isLost = false
  const timer = setInterval(() =>
    lstat(folder).catch(() => undefined).then(found => {
      if (found?.ino === ino && found.birthtimeMs === birthtimeMs) return
      isLost = true
      clearInterval(timer)
      log.error({ path: folder }, 'the memory that workers share was removed: each has its own cache until a restart')
    }, () => {}), checkEveryMs).unref()
  return {
    path: folder,
    get isLost () {
      return isLost
    },
    close: async () => {
      clearInterval(timer)
      // Before the lock, without which no start would remove it.
      if (!isLost) await rm(join(folder, logName), { recursive: true, force: true })
      await lock.close()
      if (!isLost) await rm(folder, { recursive: true, force: true })
    }
  }
}

/** Removes the folders of this user's processes that are gone; one without a lock was just made, or is empty. */
async function removeUnowned (): Promise<void> {
  for (const name of await readdir(path)) {
    const [, pid, started] = ownName.exec(name) ?? []
    const folder = join(path, name)
    if (pid === undefined || started === await startTimeOf(pid).catch(() => undefined)) continue
    const found = await lstat(folder).catch(() => undefined)
    if (found?.isDirectory() !== true || found.uid !== process.getuid?.()) continue
    const lock = join(folder, 'lock')
    if (!existsSync(lock)) continue
    // A process of another container has its own numbers, but its socket can be reached.
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
