import { constants } from 'node:fs'
import { lstat, open } from 'node:fs/promises'
import { join } from 'node:path'
import { isAbsent, writeDurably } from '../cache/disk-files.js'
import { decodeWithChecksum, encodeWithChecksum } from './checksummed-json.js'
import { isListOf } from './parse-records.js'
import { type Records } from './records.js'

type NamedText = readonly [name: string, text: string]

// Chains that the host has seen last (law 10: nothing grows without bound).
const maxTexts = 16
const fileName = 'spaces'
// The state of a chain takes a few kB.
const mostFileBytes = 1_048_576

/**
 * Records of the processes of one host: in memory and, with a folder, in one file there that a power cut leaves as it
 * was or as it is to be.
 */
export class HostRecords implements Records {
  #path: string | undefined
  // The one that was replaced last is last.
  #texts: ReadonlyMap<string, string> = new Map()
  readonly #onWriteError: () => void
  #last: Promise<unknown> = Promise.resolve()
  #isClosed = false

  constructor (path?: string, onWriteError = (): void => {}) {
    this.#path = path
    this.#onWriteError = onWriteError
  }

  /** Reads the file; resolves with false if it is damaged, and then it is replaced by the next change. */
  async open (): Promise<boolean> {
    if (this.#path === undefined) return true
    const text = await readText(join(this.#path, fileName))
    const texts = decodeWithChecksum(text)
    if (!isListOf(texts, isNamedText)) return text === undefined
    this.#texts = new Map(texts)
    return true
  }

  async read (name: string): Promise<string | undefined> {
    return this.#texts.get(name)
  }

  async replace (name: string, before: string | undefined, after: string): Promise<boolean> {
    return await this.#inTurn(async () => {
      if (this.#texts.get(name) !== before) return false
      const others = [...this.#texts].filter(([other]) => other !== name)
      const texts = new Map([...others.slice(1 - maxTexts), [name, after]])
      await this.#write(texts)
      this.#texts = texts
      return true
    })
  }

  /** Ends all use of the folder, because another process has it, or it is gone; nothing in it is ever read again. */
  giveUp (): void {
    this.#path = undefined
  }

  /** Ends changes; resolves when none is under way. */
  async close (): Promise<void> {
    this.#isClosed = true
    await this.#last
  }

  /** Writes the file again if it was removed. */
  async restore (): Promise<void> {
    if (this.#path === undefined || this.#texts.size === 0) return
    const isRemoved = await lstat(join(this.#path, fileName)).then(() => false, isAbsent)
    if (isRemoved) await this.#inTurn(async () => await this.#write(this.#texts))
  }

  // One change after another, each on the texts that the last one left.
  async #inTurn<T> (change: () => Promise<T>): Promise<T> {
    if (this.#isClosed) throw new Error('the folder is given up')
    const changed = this.#last.then(change)
    this.#last = changed.catch(() => {})
    return await changed
  }

  async #write (texts: ReadonlyMap<string, string>): Promise<void> {
    if (this.#path === undefined) return
    await writeDurably(this.#path, fileName, encodeWithChecksum([...texts])).catch((error: unknown) => {
      this.#onWriteError()
      throw error
    })
  }
}

function isNamedText (value: unknown): value is NamedText {
  return isListOf(value, part => typeof part === 'string') && value.length === 2
}

/** Reads a small file of text; undefined if there is none. */
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
