import { randomBytes } from 'node:crypto'
import { mkdir, open, readdir, rename, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { readState, writeFlags } from '../cache/disk-files.js'
import { type SpacePlace, withSpace } from '../chain/space-places.js'
import { type SpaceRecord } from '../chain/space.js'
import { decodeWithChecksum, encodeWithChecksum } from './checksummed-json.js'
import { type LastSpace, parseSpace } from './parse-records.js'

/** Space in the folder of the disk tier, with the folder of its entries. */
export interface StoredSpace {
  readonly record: SpaceRecord
  /** Random behind the name of the space, so that entries that could not be removed never come back. */
  readonly folder: string
  /** Counts the saves of all records, so that the last one is known. */
  readonly save: number
}

/** Change of the spaces, which only the process that owns the folder makes. */
export type SpaceChange =
  | { readonly kind: 'put', readonly record: SpaceRecord, readonly replacesAll: boolean }
  | { readonly kind: 'renew', readonly name: string }

// Bounds the spaces of all chain ids together.
const maxStored = 32
// Damaged files that stay for an operator to look at.
const maxSetAside = 8
const setAsideName = /^\d{8}-unreadable-/
const fileName = 'spaces'

/** Spaces in the folder of the disk tier, as its owner and each worker see them; `change` asks the owner. */
export class FolderSpaces implements SpacePlace {
  readonly #change: (change: SpaceChange) => Promise<void>
  #list: readonly StoredSpace[] = []
  #error: string | undefined

  constructor (change: (change: SpaceChange) => Promise<void>) {
    this.#change = change
  }

  get list (): readonly StoredSpace[] {
    return this.#list
  }

  /** Reason why the last change failed. */
  get error (): string | undefined {
    return this.#error
  }

  replace (list: readonly StoredSpace[]): void {
    this.#list = list
  }

  /** Returns the folder with the entries of a space. */
  folderOf (name: string): string | undefined {
    return this.#list.find(({ record }) => record.name === name)?.folder
  }

  async read (chainId: number): Promise<readonly SpaceRecord[]> {
    return this.#list.filter(({ record }) => record.chainId === chainId).map(({ record }) => record)
  }

  async put (record: SpaceRecord, replacesAll = false): Promise<readonly SpaceRecord[]> {
    await this.#make({ kind: 'put', record, replacesAll })
    return await this.read(record.chainId)
  }

  /** Gives a space an empty folder; durable once it resolves. */
  async renew (name: string): Promise<void> {
    await this.#make({ kind: 'renew', name })
  }

  async remembered (): Promise<readonly LastSpace[]> {
    const [last] = this.#list.toSorted((a, b) => b.save - a.save)
    return last === undefined ? [] : [last.record]
  }

  async #make (change: SpaceChange): Promise<void> {
    try {
      await this.#change(change)
      this.#error = undefined
    } catch (error) {
      this.#error = (error as Error).message
      throw error
    }
  }
}

/** Opens the spaces of a folder for its owner; sets a damaged file aside and reports its new name. */
export async function openFolderSpaces (path: string, onSetAside: (name: string) => void): Promise<FolderSpaces> {
  let last: Promise<unknown> = Promise.resolve()
  const spaces = new FolderSpaces(async change => {
    // One change after another, each on the list that the last one left.
    const changed = last.then(async () => {
      const list = changedList(spaces.list, change)
      if (list === spaces.list) return
      await writeDurably(path, fileName, encodeWithChecksum(list))
      spaces.replace(list)
    })
    last = changed.catch(() => {})
    await changed
  })
  const text = await readState(join(path, fileName))
  const stored = parseStored(decodeWithChecksum(text))
  if (stored !== undefined) spaces.replace(stored)
  else if (text !== undefined) onSetAside(await setAside(path, fileName))
  return spaces
}

function changedList (list: readonly StoredSpace[], change: SpaceChange): readonly StoredSpace[] {
  const save = Math.max(0, ...list.map(stored => stored.save)) + 1
  if (change.kind === 'renew') {
    return list.map(stored =>
      stored.record.name === change.name
        ? { ...stored, folder: newFolder(change.name), save }
        : stored
    )
  }
  const { record, replacesAll } = change
  const ofChain = list.filter(stored => stored.record.chainId === record.chainId)
  const before = ofChain.map(stored => stored.record)
  const after = withSpace(before, record, replacesAll)
  if (after === before) return list
  const changed = after.map(each => {
    const stored = ofChain.find(other => other.record.name === each.name)
    const isChanged = each.name === record.name
    return {
      record: each,
      folder: stored?.folder ?? newFolder(each.name),
      save: isChanged ? save : stored?.save ?? save
    }
  })
  return [...changed, ...list.filter(stored => !ofChain.includes(stored))].slice(0, maxStored)
}

/** Moves what cannot be opened into a folder of its own, under a name that says so; returns the name. */
export async function setAside (path: string, name: string): Promise<string> {
  const folder = join(path, 'set-aside')
  await mkdir(folder, { recursive: true })
  const others = (await readdir(folder)).filter(name => setAsideName.test(name)).sort()
  for (const old of others.slice(0, Math.max(0, others.length - maxSetAside + 1))) {
    // Only a file is varve's; a folder stays.
    await unlink(join(folder, old)).catch(() => {})
  }
  const last = Number(others.at(-1)?.split('-')[0] ?? 0)
  const to = `${String(last + 1).padStart(8, '0')}-unreadable-${name.replaceAll(/[^A-Za-z0-9.]/g, '-')}`
  await rename(join(path, name), join(folder, to))
  return join('set-aside', to)
}

/** Writes a small file that survives a power loss once it resolves. */
async function writeDurably (path: string, name: string, text: string): Promise<void> {
  const temporary = join(path, 'tmp', name)
  const file = await open(temporary, writeFlags)
  try {
    await file.writeFile(text)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(temporary, join(path, name))
  const opened = await open(path, 'r')
  try {
    await opened.sync()
  } finally {
    await opened.close()
  }
}

function parseStored (value: unknown): StoredSpace[] | undefined {
  if (!Array.isArray(value)) return undefined
  const list = value.map((item: unknown): StoredSpace | undefined => {
    const { record: stored, folder, save } = (item ?? {}) as Partial<Record<keyof StoredSpace, unknown>>
    const record = parseSpace(stored)
    return record !== undefined && typeof folder === 'string' && /^[0-9a-f]+-[0-9a-f]{16}$/.test(folder) &&
        folder.startsWith(`${record.name}-`) && typeof save === 'number'
      ? { record, folder, save }
      : undefined
  })
  return list.every(item => item !== undefined) ? list : undefined
}

function newFolder (name: string): string {
  return `${name}-${randomBytes(8).toString('hex')}`
}
