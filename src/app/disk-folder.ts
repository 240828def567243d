import { existsSync } from 'node:fs'
import { type FileHandle, mkdir, open, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { connect, createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { type Logger } from 'pino'
import { type DiskSize } from '../cache/disk-files.js'
import { decodeWithChecksum } from '../cluster/checksummed-json.js'
import { DiskGenerationRegistry, setAside } from '../cluster/disk-generation-registry.js'
import { type Metrics } from '../metrics/metrics.js'

const descriptorsPath = '/proc/self/fd'

/** Hold on a folder, given up by closing it. */
interface FolderLock {
  close(): Promise<void>
}

/** Folder of a disk tier that this process may use alone. */
export interface OpenFolder {
  readonly path: string
  readonly lock: FolderLock
  readonly registry: DiskGenerationRegistry
  readonly knownSize: DiskSize | undefined
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
    await makeFolder(path)
    await makeFolder(join(path, 'tmp'))
    const lock = await lockFolder(path)
    try {
      await prepareFolder(path, onSetAside)
      return {
        path,
        lock,
        registry: await DiskGenerationRegistry.open(path, onSetAside),
        knownSize: await readSize(path)
      }
    } catch (error) {
      await lock.close()
      throw error
    }
  } catch (error) {
    throw new Error(`cache.disk.path ${path} cannot be used: ${(error as Error).message}`, { cause: error })
  }
}

async function prepareFolder (path: string, onSetAside: (name: string) => void): Promise<void> {
  // Removes files that a killed process left behind.
  for (const name of await readdir(join(path, 'tmp'))) await rm(join(path, 'tmp', name), { recursive: true })
  await writeFile(join(path, 'tmp', 'probe'), '')
  await rm(join(path, 'tmp', 'probe'))
  for (const name of ['entries', 'generations']) {
    const found = await stat(join(path, name)).catch(() => undefined)
    if (found?.isDirectory() === false) onSetAside(await setAside(path, name))
    await makeFolder(join(path, name))
  }
}

// Makes one level: in some file systems Node.js never ends making several.
async function makeFolder (path: string): Promise<void> {
  await mkdir(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
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
  const value = decodeWithChecksum(await readFile(join(path, 'size'), 'utf8').catch(() => undefined))
  const { bytes, entries } = (value ?? {}) as Partial<DiskSize>
  return typeof bytes === 'number' && typeof entries === 'number' ? { bytes, entries } : undefined
}
