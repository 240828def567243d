import { randomBytes } from 'node:crypto'
import { existsSync, type Stats } from 'node:fs'
import {
  access,
  constants,
  type FileHandle,
  lstat,
  open,
  readdir,
  rename,
  rm,
  rmdir,
  stat,
  statfs,
  unlink,
  writeFile
} from 'node:fs/promises'
import { connect, createServer, type Server } from 'node:net'
import { dirname, join } from 'node:path'
import { type Logger } from 'pino'
import { isAbsent, makeFolder, segmentName, writeFlags } from '../cache/disk-files.js'
import { indexBytesPerEntry, maxEntriesOf } from '../cache/disk-tier.js'
import { bytesPerGb, bytesPerMb } from '../config/units.js'

/** Folder of a log that this process has locked. */
export interface OpenFolder {
  readonly path: string
  /** True once another process has the folder, after it was removed or emptied. */
  readonly isLost: boolean
  /** Makes the folder again if it was removed, or notices that another process has it. */
  restore(): Promise<void>
  /** Releases the folder for other processes. */
  close(): Promise<void>
}

interface Lock {
  /** Stats of the socket, undefined if it is gone already. */
  readonly socket: Stats | undefined
  close(): Promise<void>
  /** Releases the socket without removing its name, which belongs to another process by now. */
  leave(): Promise<void>
}

class OwnedByOther extends Error {}

/** Facts about the folder of a disk tier that an operator checks before the first start. */
export interface DiskFolderFacts {
  readonly state: 'new' | 'writable' | 'in use'
  readonly freeGb: number
  readonly usedGb: number
  /** Memory of the indexes of a full folder in all workers, at most. */
  readonly maxIndexMb: number
  readonly problems: readonly string[]
}

const maxAnswerMs = 1000
const descriptorsPath = '/proc/self/fd'
// An empty file whose name marks a folder as varve's, so that no half-written mark can exist.
const mark = 'varve-cache'
// Name in every empty ext4 file system, so a mounted volume with it alone counts as empty.
const emptyVolume = 'lost+found'
/** Name of the folder of the log. */
export const logName = 'log'
// Folder for damaged files in earlier releases.
const aside = 'set-aside'
// Names in folders of earlier releases, which had a folder for each process, and before that a file for each entry.
const slotName = /^[1-9][0-9]{0,3}$/
const earlierFiles = ['size', 'spaces'] as const
const earlierFolders = ['entries', 'generations', 'outdated', 'tmp'] as const
const earlierTemporary = /^(?:\d+-\d+|\d+\.\d+|size|spaces|probe)$/
const ownNames: ReadonlySet<string> = new Set([mark, 'lock', logName, aside, ...earlierFiles, ...earlierFolders])

/**
 * Makes the folder of the tier, proves that it can be written, and locks it for this process. An error is one sentence
 * for the operator.
 */
export async function openFolder (path: string, log: Logger): Promise<OpenFolder> {
  let lock = await makeAndLock(path).catch(refuse)
  let isLost = false
  const folder = {
    path,
    get isLost () {
      return isLost
    },
    restore: async () => {
      const [marked, socket] = await Promise.all([mark, 'lock'].map(async name => await statsOf(join(path, name))))
      const isOwn = isSame(socket, lock.socket)
      if (marked !== undefined && isOwn) return
      // Closes the own lock before a new one is made, because a server that closes removes the name of its socket. The
      // name of another process's socket must stay.
      if (socket === undefined || isOwn) await lock.close()
      else await lock.leave()
      try {
        lock = await makeAndLock(path, true)
        log.warn({ path }, 'cache.disk.path was removed: made again')
      } catch (error) {
        if (!(error instanceof OwnedByOther)) throw error
        isLost = true
        log.error({ path }, `cache.disk.path was removed, and now ${error.message}: off until a restart`)
      }
    },
    close: async () => {
      if (!isLost) await lock.close()
    }
  }
  try {
    await removeEarlierForm(path, log)
    return folder
  } catch (error) {
    await folder.close()
    return refuse(error)
  }

  function refuse (error: unknown): never {
    throw new Error(`cache.disk.path ${path} cannot be used: ${(error as Error).message}`, { cause: error })
  }
}

/** Inspects the folder of a disk tier without making it; a varve that runs may use it. Throws if it is unusable. */
export async function inspectDiskFolder (path: string, maxGb: number, workers: number): Promise<DiskFolderFacts> {
  const state = await stateOf(path)
  const { bavail, bsize } = await statfs(state === 'new' ? dirname(path) : path)
  const freeGb = bavail * bsize / bytesPerGb
  const usedGb = state === 'new' ? 0 : await usedBytes(path) / bytesPerGb
  return {
    state,
    freeGb: rounded(freeGb),
    usedGb: rounded(usedGb),
    maxIndexMb: Math.ceil(workers * maxEntriesOf(maxGb * bytesPerGb) * indexBytesPerEntry / bytesPerMb),
    problems: freeGb + usedGb >= maxGb
      ? []
      : [`the file system has ${rounded(freeGb)} GB free, too little for maxGb ${maxGb}`]
  }
}

async function stateOf (path: string): Promise<DiskFolderFacts['state']> {
  const found = await stat(path).catch((error: unknown) => {
    if (!isAbsent(error)) throw error
    return undefined
  })
  // A start makes the folder itself, but no folder above it.
  if (found === undefined) {
    await access(dirname(path), constants.W_OK)
    return 'new'
  }
  await requireOwnFolder(path)
  await probe(path)
  const folder = await open(path, 'r')
  try {
    return await ownerOf(lockSocketIn(path, folder)) === undefined ? 'writable' : 'in use'
  } finally {
    await folder.close()
  }
}

async function usedBytes (path: string): Promise<number> {
  const files = (await readdir(path, { recursive: true })).filter(name => segmentName.test(name))
  const sizes = await Promise.all(files.map(async name => (await statsOf(join(path, name)))?.size ?? 0))
  return sizes.reduce((sum, size) => sum + size, 0)
}

async function makeAndLock (path: string, isRemade = false): Promise<Lock> {
  await makeFolder(path)
  await requireOwnFolder(path, isRemade)
  await writeFile(join(path, mark), '', { flag: writeFlags })
  const lock = await lockFolder(path)
  await probe(path).catch(async (error: unknown) => {
    await lock.close()
    throw error
  })
  return lock
}

/** Proves that a folder can be written: a file system that is mounted read-only shows it at a write. */
async function probe (path: string): Promise<void> {
  const file = join(path, `check-${process.pid}`)
  await writeFile(file, '', { flag: writeFlags })
  await unlink(file)
}

/**
 * Throws for a folder with files that is not varve's, because varve removes files in its own folder; also throws for a
 * link, which would lead out of the folder. If `isRemade`, varve's own files may be left, because a removal may take
 * the mark first.
 */
async function requireOwnFolder (path: string, isRemade = false): Promise<void> {
  const names = await readdir(path)
  const isOwn = (name: string): boolean => ownNames.has(name) || slotName.test(name)
  const first = names.find(name => name !== emptyVolume && !(isRemade && isOwn(name)))
  const isEarlier = names.includes('entries') && names.includes('generations')
  if (first !== undefined && !names.includes(mark) && !isEarlier) {
    throw new Error(
      `it holds files that are not varve's, such as ${JSON.stringify(first)}: give varve an empty folder or a new one`
    )
  }
  for (const name of names.filter(isOwn)) {
    if ((await statsOf(join(path, name)))?.isSymbolicLink() !== true) continue
    throw new Error(`${JSON.stringify(name)} in it is a symbolic link, and varve follows none in its folder: remove it`)
  }
}

/** Returns the stats of a file without following a link; undefined if there is none. */
async function statsOf (path: string): Promise<Stats | undefined> {
  return await lstat(path).catch((error: unknown) => {
    if (!isAbsent(error)) throw error
    return undefined
  })
}

/** Removes what an earlier release stored, because no release reads it any more; leaves everything else. */
async function removeEarlierForm (path: string, log: Logger): Promise<void> {
  const names = await readdir(path)
  const outdated = join(path, 'outdated')
  const slots = names.filter(name => slotName.test(name))
  if (slots.length > 0) {
    log.info({ path }, 'cache.disk.path has a folder for each process, as earlier releases: removed')
  }
  for (const slot of slots) {
    await removeFrom(join(path, slot, aside), /-unreadable-/)
    await removeFrom(join(path, slot), /^(?:\d{8}\.segment|spaces(?:\.new)?)$/)
  }
  if (names.includes('entries')) {
    log.info({ path }, 'cache.disk.path has entries of an earlier release: removed')
    await rm(outdated, { recursive: true, force: true })
    await rename(join(path, 'entries'), outdated)
  }
  for (const name of earlierFiles) await rm(join(path, name), { force: true })
  await removeFrom(join(path, 'tmp'), earlierTemporary)
  await rm(join(path, 'generations'), { recursive: true, force: true })
  rm(outdated, { recursive: true, force: true }).catch(() => {})
}

/** Removes files of some names, and then the folder if it is empty; other files stay. */
async function removeFrom (path: string, names: RegExp): Promise<void> {
  for (const name of await readdir(path).catch(() => [])) {
    if (names.test(name)) await unlink(join(path, name)).catch(() => {})
  }
  await rmdir(path).catch(() => {})
}

/** Returns true if both are stats of one file. */
export function isSame (one: Stats | undefined, other: Stats | undefined): boolean {
  return one?.ino === other?.ino && one?.birthtimeMs === other?.birthtimeMs
}

/** Listens on a socket in the folder: the system closes it with the process, however the process ends. */
export async function lockFolder (path: string): Promise<Lock> {
  const folder = await open(path, 'r')
  const socket = lockSocketIn(path, folder)
  try {
    const server = await listenAlone(socket)
    return {
      socket: await statsOf(socket),
      close: async () => {
        await new Promise(resolve => {
          server.close(resolve)
        })
        await folder.close()
      },
      leave: async () => await folder.close()
    }
  } catch (error) {
    await folder.close()
    throw error
  }
}

/** Listens on a socket; throws if another process does. */
async function listenAlone (socket: string): Promise<Server> {
  return await listenOn(socket).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EADDRINUSE') throw error
    await requireNoOwner(socket)
    await removeUnowned(socket)
    return await listenAlone(socket)
  })
}

async function requireNoOwner (socket: string): Promise<void> {
  const owner = await ownerOf(socket)
  if (owner === undefined) return
  throw new OwnedByOther(`another varve (process ${owner}) uses it: give each its own folder, or stop the other`)
}

/** Removes the socket of a process that is gone, but not the socket of a process that took its place a moment ago. */
async function removeUnowned (socket: string): Promise<void> {
  // Moves the socket first: only one process can move a file, and then sees which socket it has moved.
  const moved = `${socket}-${randomBytes(4).toString('hex')}`
  try {
    await rename(socket, moved)
  } catch (error) {
    if (isAbsent(error)) return
    throw error
  }
  try {
    await requireNoOwner(moved)
    await unlink(moved)
  } catch (error) {
    // Gives the name back, because the socket is in use, or a folder that is not varve's has this name.
    await rename(moved, socket)
    throw error
  }
}

// Shortens the path on Linux by way of the open folder, because names of sockets have at most 107 bytes.
function lockSocketIn (path: string, { fd }: FileHandle): string {
  return join(existsSync(descriptorsPath) ? join(descriptorsPath, String(fd)) : path, 'lock')
}

async function listenOn (socket: string): Promise<Server> {
  return await new Promise((resolve, reject) => {
    const server = createServer(connection => connection.end(String(process.pid)))
    server.once('error', reject).listen(socket, () => resolve(server.unref()))
  })
}

/** Returns the process that listens on a socket, `unknown` if it does not say; undefined if it is gone. */
export async function ownerOf (socket: string): Promise<string | undefined> {
  return await new Promise(resolve => {
    let text = ''
    const connection = connect(socket)
    // A process that is stopped accepts a connection, and says nothing.
    connection.setTimeout(maxAnswerMs, () => {
      connection.destroy()
      resolve('unknown')
    })
    connection.on('data', data => {
      text += data.toString()
    })
    connection.once('end', () => resolve(text)).once('error', error => {
      const isGone = isAbsent(error) || ('code' in error && error.code === 'ECONNREFUSED')
      resolve(isGone ? undefined : 'unknown')
    })
  })
}

function rounded (gb: number): number {
  return Math.round(gb * 1000) / 1000
}
