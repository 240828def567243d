import { access, constants, rm, stat, statfs, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { ownerOfFolder, readSize, requireOwnFolder } from './disk-folder.js'

/** Facts about the folder of a disk tier that an operator checks before the first start. */
export interface DiskFolderFacts {
  readonly state: 'new' | 'writable' | 'in use'
  readonly freeGb: number
  readonly usedGb: number
  readonly problems: readonly string[]
}

const bytesPerGb = 1024 ** 3

/** Inspects the folder of a disk tier without making it; a varve that runs may use it. Throws where it is unusable. */
export async function inspectDiskFolder (path: string, maxGb: number): Promise<DiskFolderFacts> {
  const state = await stateOf(path)
  const { bavail, bsize } = await statfs(state === 'new' ? dirname(path) : path)
  const freeGb = bavail * bsize / bytesPerGb
  const usedGb = ((await readSize(path))?.bytes ?? 0) / bytesPerGb
  return {
    state,
    freeGb: rounded(freeGb),
    usedGb: rounded(usedGb),
    problems: freeGb + usedGb >= maxGb
      ? []
      : [`the file system has ${rounded(freeGb)} GB free, too little for maxGb ${maxGb}`]
  }
}

async function stateOf (path: string): Promise<DiskFolderFacts['state']> {
  const found = await stat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
    return undefined
  })
  // A start makes one level only.
  if (found === undefined) {
    await access(dirname(path), constants.W_OK)
    return 'new'
  }
  await requireOwnFolder(path)
  // A file system that is mounted read-only shows it at a write.
  const probe = join(path, `check-${process.pid}`)
  await writeFile(probe, '')
  await rm(probe)
  return await ownerOfFolder(path) === undefined ? 'writable' : 'in use'
}

function rounded (gb: number): number {
  return Math.round(gb * 1000) / 1000
}
