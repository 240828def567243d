import { existsSync, type Stats } from 'node:fs'
import { type FileHandle, lstat, open, readdir, rename, rm, unlink, writeFile } from 'node:fs/promises'
import { connect, createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { type Logger } from 'pino'
import {
  appendFlags,
  type DiskSize,
  isAbsent,
  makeFolder,
  readState,
  temporaryName,
  writeFlags
} from '../cache/disk-files.js'
import { decodeWithChecksum } from '../peers/checksummed-json.js'
import { type FolderSpaces, openFolderSpaces, setAside } from '../peers/folder-spaces.js'
import { type Metrics } from '../metrics/metrics.js'

const descriptorsPath = '/proc/self/fd'
// An empty file whose name marks a folder as varve's, so that no half-written mark can exist.
const mark = 'varve-cache'
// Every folder of ext4 that is a file system of its own has this.
const emptyVolume = 'lost+found'
const neededFolders = ['tmp', 'entries'] as const
// An earlier release recorded chains in a folder of this name.
const earlierFolder = 'generations'
const outdatedFolder = 'outdated'
const ownFolders = [...neededFolders, earlierFolder, outdatedFolder, 'set-aside'] as const
const ownNames: ReadonlySet<string> = new Set([...ownFolders, 'lock', 'size', 'spaces'])

/** Hold on a folder, given up by closing it. */
interface FolderLock {
  close(): Promise<void>
}

/** Folder of a disk tier that this process may use alone. */
export interface OpenFolder {
  readonly path: string
  readonly spaces: FolderSpaces
  readonly knownSize: DiskSize | undefined
  /** Makes the folder and its lock again if a part of it was removed; returns true then. */
  remake(): Promise<boolean>
  /** Gives the folder up. */
  close(): Promise<void>
}

/**
 * Makes the folder of the tier, proves that it can be written, and locks it for this process. An error is one sentence
 * for the operator.
 */
export async function openFolder (path: string, log: Logger, metrics: Metrics): Promise<OpenFolder> {
  const onSetAside = (name: string): void => {
    metrics.foundCorrupt()
    log.warn({ name }, 'unreadable file in cache.disk.path: set aside')
  }
  try {
    let lock = await makeAndLock(path, onSetAside)
    try {
      await removeEarlierForm(path, log)
      return {
        path,
        spaces: await openFolderSpaces(path, onSetAside),
        knownSize: await readSize(path),
        remake: async () => {
          const found = await Promise.all(
            [mark, 'lock', ...neededFolders].map(async name => await statsOf(join(path, name)))
          )
          if (!found.includes(undefined)) return false
          // Closes first, because a server that closes removes the name of its socket.
          await lock.close()
          lock = await makeAndLock(path, onSetAside, true)
          log.warn({ path }, 'cache.disk.path was removed: made again')
          return true
        },
        close: async () => {
          await lock.close()
        }
      }
    } catch (error) {
      await lock.close()
      throw error
    }
  } catch (error) {
    throw new Error(`cache.disk.path ${path} cannot be used: ${(error as Error).message}`, { cause: error })
  }
}

async function makeAndLock (
  path: string,
  onSetAside: (name: string) => void,
  isRemade = false
): Promise<FolderLock> {
  await makeFolder(path)
  await requireOwnFolder(path, isRemade)
  await writeFile(join(path, mark), '', { flag: appendFlags })
  const lock = await lockFolder(path)
  try {
    await prepareFolder(path, onSetAside)
    return lock
  } catch (error) {
    await lock.close()
    throw error
  }
}

/**
 * Throws for a folder that has files and is not varve's, because varve removes files in its own, and for a link that
 * would lead out of it. One that was varve's a moment ago may have lost its mark before its other files.
 */
export async function requireOwnFolder (path: string, isRemade = false): Promise<void> {
  const names = await readdir(path)
  const first = names.find(name => name !== emptyVolume && !(isRemade && ownNames.has(name)))
  if (first !== undefined && !names.includes(mark) && !await isOfEarlierRelease(path)) {
    throw new Error(
      `it holds files that are not varve's, such as ${JSON.stringify(first)}: give varve an empty folder or a new one`
    )
  }
  for (const name of ownFolders) {
    const link = (await statsOf(join(path, name)))?.isSymbolicLink() === true
      ? name
      : name === 'entries'
      ? await linkAmongFolders(path, name)
      : undefined
    if (link !== undefined) {
      throw new Error(
        `${JSON.stringify(link)} in it is a symbolic link, and varve follows none in its folder: remove it`
      )
    }
  }
}

/** Finds a link where the three levels of folders above entries belong; lists no entries, which are far more. */
async function linkAmongFolders (path: string, name: string, level = 1): Promise<string | undefined> {
  for (const each of await readdir(join(path, name), { withFileTypes: true }).catch(() => [])) {
    const inner = join(name, each.name)
    if (each.isSymbolicLink()) return inner
    const link = each.isDirectory() && level < 3 ? await linkAmongFolders(path, inner, level + 1) : undefined
    if (link !== undefined) return link
  }
  return undefined
}

// Earlier releases wrote no mark.
async function isOfEarlierRelease (path: string): Promise<boolean> {
  const found = await Promise.all(['entries', earlierFolder].map(async name => await statsOf(join(path, name))))
  return found.every(each => each?.isDirectory() === true)
}

/** Returns the stats of a file without following a link; undefined if there is none. */
async function statsOf (path: string): Promise<Stats | undefined> {
  return await lstat(path).catch((error: unknown) => {
    if (!isAbsent(error)) throw error
    return undefined
  })
}

async function prepareFolder (path: string, onSetAside: (name: string) => void): Promise<void> {
  for (const name of neededFolders) {
    if ((await statsOf(join(path, name)))?.isDirectory() === false) onSetAside(await setAside(path, name))
    await makeFolder(join(path, name))
  }
  // Removes files that a killed process left behind; a folder of that name fails and stays.
  for (const name of await readdir(join(path, 'tmp'))) {
    if (temporaryName.test(name)) await unlink(join(path, 'tmp', name)).catch(() => {})
  }
  await writeFile(join(path, 'tmp', 'probe'), '', { flag: writeFlags })
  await unlink(join(path, 'tmp', 'probe'))
}

/** Removes what an earlier release stored, beside everything else, because no release reads it any more. */
async function removeEarlierForm (path: string, log: Logger): Promise<void> {
  const outdated = join(path, outdatedFolder)
  if (await statsOf(join(path, earlierFolder)) !== undefined) {
    log.info({ path }, 'cache.disk.path has entries of an earlier release: removed')
    await rename(join(path, 'entries'), outdated)
    await makeFolder(join(path, 'entries'))
    await rm(join(path, 'size'), { force: true })
    await rm(join(path, earlierFolder), { recursive: true })
  }
  rm(outdated, { recursive: true, force: true }).catch(() => {})
}

/** Listens on a socket in the folder: the system closes it with the process, however the process ends. */
async function lockFolder (path: string): Promise<FolderLock> {
  const folder = await open(path, 'r')
  const socket = lockSocketIn(path, folder)
  try {
    const server = await listenOn(socket).catch(async (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EADDRINUSE') throw error
      const owner = await ownerOf(socket)
      if (owner !== undefined) {
        throw new Error(`another varve (process ${owner}) uses it: give each its own folder, or stop the other`)
      }
      await rm(socket, { force: true })
      return await listenOn(socket)
    })
    return {
      close: async () => {
        await new Promise(resolve => {
          server.close(resolve)
        })
        await folder.close()
      }
    }
  } catch (error) {
    await folder.close()
    throw error
  }
}

/** Returns the process that uses a folder; undefined if none does. */
export async function ownerOfFolder (path: string): Promise<string | undefined> {
  const folder = await open(path, 'r')
  try {
    return await ownerOf(lockSocketIn(path, folder))
  } finally {
    await folder.close()
  }
}

// Names of sockets have at most 107 bytes, which Linux avoids by the open folder.
function lockSocketIn (path: string, { fd }: FileHandle): string {
  return join(existsSync(descriptorsPath) ? join(descriptorsPath, String(fd)) : path, 'lock')
}

async function listenOn (socket: string): Promise<Server> {
  return await new Promise((resolve, reject) => {
    const server = createServer(connection => {
      connection.end(String(process.pid))
    })
    server.once('error', reject).listen(socket, () => {
      resolve(server.unref())
    })
  })
}

/** Returns the process that listens on a socket; undefined if it is gone. */
async function ownerOf (socket: string): Promise<string | undefined> {
  return await new Promise(resolve => {
    let text = ''
    const connection = connect(socket)
    connection.on('data', data => {
      text += data.toString()
    })
    connection.once('end', () => {
      resolve(text)
    }).once('error', () => {
      resolve(undefined)
    })
  })
}

/** Returns the size of a tier as its folder last recorded it; undefined without a readable record. */
export async function readSize (path: string): Promise<DiskSize | undefined> {
  const value = decodeWithChecksum(await readState(join(path, 'size')))
  const { bytes, entries } = (value ?? {}) as Partial<DiskSize>
  return typeof bytes === 'number' && typeof entries === 'number' ? { bytes, entries } : undefined
}
