import { constants } from 'node:fs'
import { lstat, mkdir, open, readdir, rename, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { isAbsent, syncFolder, writeFlags } from '../cache/disk-files.js'
import { type SpacePlace, withSpace } from '../chain/space-places.js'
import { type SpaceRecord } from '../chain/space.js'
import { decodeWithChecksum, encodeWithChecksum } from './checksummed-json.js'
import { type LastSpace, parseSpace } from './parse-records.js'

/** Space in the folder of the disk tier. */
interface StoredSpace {
  readonly record: SpaceRecord
  /** Counts the saves of all records, so that the last one is known. */
  readonly save: number
}

// Bounds the spaces of all chain ids together.
const maxStored = 32
// Damaged files that stay for an operator to look at.
const maxSetAside = 8
const setAsideName = /^\d{8}-unreadable-/
const fileName = 'spaces'
// The state of a chain takes a few kB.
const mostFileBytes = 1_048_576

/**
 * Spaces in the folder of a log, in one file that a power cut leaves as it was or as it is to be; those of a log in
 * memory, which no later process reads, lie in memory too.
 */
export class FolderSpaces implements SpacePlace {
  #path: string | undefined
  #list: readonly StoredSpace[] = []
  #error: string | undefined
  #last: Promise<unknown> = Promise.resolve()
  #isClosed = false

  private constructor (path: string | undefined) {
    this.#path = path
  }

  static inMemory (): FolderSpaces {
    return new FolderSpaces(undefined)
  }

  /** Opens the spaces of a folder; sets a damaged file aside and reports its new name. */
  static async open (path: string, onSetAside: (name: string) => void): Promise<FolderSpaces> {
    const spaces = new FolderSpaces(path)
    const text = await readText(join(path, fileName))
    const stored = parseStored(decodeWithChecksum(text))
    if (stored !== undefined) spaces.#list = stored
    else if (text !== undefined) onSetAside(await setAside(path))
    return spaces
  }

  /** Reason why the last change failed. */
  get error (): string | undefined {
    return this.#error
  }

  async read (chainId: number): Promise<readonly SpaceRecord[]> {
    return this.#list.filter(({ record }) => record.chainId === chainId).map(({ record }) => record)
  }

  async put (record: SpaceRecord, replacesAll = false): Promise<readonly SpaceRecord[]> {
    await this.#inTurn(async () => {
      const list = changedList(this.#list, record, replacesAll)
      if (list === this.#list) return
      await this.#write(list)
      this.#list = list
    })
    return await this.read(record.chainId)
  }

  async remembered (): Promise<readonly LastSpace[]> {
    const [last] = this.#list.toSorted((a, b) => b.save - a.save)
    return last === undefined ? [] : [last.record]
  }

  /** Ends all use of the folder, because another process has it, or it is gone; nothing in it is ever read again. */
  giveUp (): void {
    this.#path = undefined
    this.#error = undefined
  }

  /** Ends changes; resolves when none is under way. */
  async close (): Promise<void> {
    this.#isClosed = true
    await this.#last
  }

  /** Writes the file again if it was removed. */
  async restore (): Promise<void> {
    if (this.#path === undefined || this.#list.length === 0) return
    const isRemoved = await lstat(join(this.#path, fileName)).then(() => false, isAbsent)
    if (isRemoved) {
      await this.#inTurn(async () => await this.#write(this.#list))
    }
  }

  // One change after another, each on the list that the last one left.
  async #inTurn (change: () => Promise<void>): Promise<void> {
    if (this.#isClosed) throw new Error('the folder is given up')
    const changed = this.#last.then(change)
    this.#last = changed.then(() => {
      this.#error = undefined
    }, (error: Error) => {
      this.#error = error.message
    })
    await changed
  }

  /** Writes a small file that survives a power loss once it resolves. */
  async #write (list: readonly StoredSpace[]): Promise<void> {
    const path = this.#path
    if (path === undefined) return
    const temporary = join(path, `${fileName}.new`)
    const file = await open(temporary, writeFlags | constants.O_TRUNC, 0o600)
    try {
      await file.writeFile(encodeWithChecksum(list))
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(temporary, join(path, fileName))
    await syncFolder(path)
  }
}

function changedList (
  list: readonly StoredSpace[],
  record: SpaceRecord,
  replacesAll: boolean
): readonly StoredSpace[] {
  const save = Math.max(0, ...list.map(stored => stored.save)) + 1
  const ofChain = list.filter(stored => stored.record.chainId === record.chainId)
  const before = ofChain.map(stored => stored.record)
  const after = withSpace(before, record, replacesAll)
  if (after === before) return list
  const changed = after.map(each => ({
    record: each,
    save: each.name === record.name ? save : ofChain.find(other => other.record.name === each.name)?.save ?? save
  }))
  return [...changed, ...list.filter(stored => !ofChain.includes(stored))].slice(0, maxStored)
}

/** Moves a file that cannot be opened into a folder of its own, under a name that says so; returns the name. */
async function setAside (path: string): Promise<string> {
  const folder = join(path, 'set-aside')
  await mkdir(folder, { recursive: true })
  const others = (await readdir(folder)).filter(name => setAsideName.test(name)).sort()
  for (const old of others.slice(0, Math.max(0, others.length - maxSetAside + 1))) {
    // Only a file is varve's; a folder stays.
    await unlink(join(folder, old)).catch(() => {})
  }
  const last = Number(others.at(-1)?.split('-')[0] ?? 0)
  const to = `${String(last + 1).padStart(8, '0')}-unreadable-${fileName}`
  await rename(join(path, fileName), join(folder, to))
  return join('set-aside', to)
}

/** Reads a small file of text; undefined if it is none. */
async function readText (path: string): Promise<string | undefined> {
  try {
    const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW)
    try {
      const found = await file.stat()
      return found.isFile() && found.size <= mostFileBytes ? (await file.readFile()).toString() : undefined
    } finally {
      await file.close()
    }
  } catch {
    return undefined
  }
}

function parseStored (value: unknown): StoredSpace[] | undefined {
  if (!Array.isArray(value)) return undefined
  const list = value.map((item: unknown): StoredSpace | undefined => {
    const { record: stored, save } = (item ?? {}) as Partial<Record<keyof StoredSpace, unknown>>
    const record = parseSpace(stored)
    return record !== undefined && typeof save === 'number' ? { record, save } : undefined
  })
  return list.every(item => item !== undefined) ? list : undefined
}
