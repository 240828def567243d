import { type RedisLink } from '../redis/link.js'
import { type RedisClient } from '../redis/create-client.js'
import { constants } from 'node:fs'
import { lstat, open } from 'node:fs/promises'
import { join } from 'node:path'
import { isAbsent, writeDurably } from '../cache/disk-files.js'
import { isListOf, decodeWithChecksum, encodeWithChecksum } from './parse-records.js'

/** Texts that peers share, each under a name. Both methods reject while the texts cannot be reached. */
export interface Records {
  /** Reads a record; undefined if there is none. */
  read(name: string): Promise<string | undefined>
  /** Replaces a record unless it has changed, and renews its expiry; returns false if it has changed. */
  replace(name: string, before: string | undefined, after: string): Promise<boolean>
}

// Bounds attempts to replace a record; each failed one means that another peer wrote meanwhile.
const maxAttempts = 20

/** Changes a record by comparison, so that no writer loses the change of another; undefined changes nothing. */
export async function changeRecord (
  records: Records,
  name: string,
  change: (text: string | undefined) => string | undefined
): Promise<void> {
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    const before = await records.read(name)
    const after = change(before)
    if (after === undefined || await records.replace(name, before, after)) return
  }
  throw new Error('other processes write the record all the time')
}

// Client reads never wait for these commands.
const controlTimeoutMs = 500
// An absent key is compared as an empty text.
const replaceScript = `
  if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
  redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
  return 1`

/** Records in Redis, under one prefix; each expires some time after its last change. */
export class RedisRecords implements Records {
  readonly #link: RedisLink
  readonly #prefix: string
  readonly #ttlSeconds: number

  constructor (link: RedisLink, prefix: string, ttlSeconds: number) {
    this.#link = link
    this.#prefix = prefix
    this.#ttlSeconds = ttlSeconds
  }

  async read (name: string): Promise<string | undefined> {
    const read = async (client: RedisClient): Promise<string | null> => await readKey(client, this.#prefix + name)
    return await this.#link.run('control', read, controlTimeoutMs) ?? undefined
  }

  async replace (name: string, before: string | undefined, after: string): Promise<boolean> {
    const key = this.#prefix + name
    const args = [before ?? '', after, this.#ttlSeconds]
    return await this.#link.runScript('control', replaceScript, [key], args, controlTimeoutMs) === 1
  }
}

/** Reads a key. A key of another type is not ours, so it is deleted and counts as absent. */
async function readKey (client: RedisClient, key: string): Promise<string | null> {
  return await client.get(key).catch(async (error: unknown) => {
    if (!(error instanceof Error) || !error.message.startsWith('WRONGTYPE')) throw error
    await client.del(key)
    return null
  })
}

type NamedText = readonly [name: string, text: string]

// Bounds the file to the chains that the host has seen last (law 10: nothing grows without bound).
const maxTexts = 16
const fileName = 'spaces'
// Bounds the file that is read; the records of one chain take a few kB.
const mostFileBytes = 1_048_576

/**
 * Records of the processes of one host, in memory and, with a folder, in one file there. After a power cut the file has
 * its old or its new content.
 */
export class HostRecords implements Records {
  #path: string | undefined
  // Texts in the order of their last change, the newest last.
  #texts: ReadonlyMap<string, string> = new Map()
  readonly #onWriteError: () => void
  #last: Promise<unknown> = Promise.resolve()
  #isClosed = false

  constructor (path?: string, onWriteError = (): void => {}) {
    this.#path = path
    this.#onWriteError = onWriteError
  }

  /** Reads the file; resolves with false if it is damaged, and the next change then replaces it. */
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

  /** Ends all use of the folder, because another process has the folder or it is gone; never reads it again. */
  giveUp (): void {
    this.#path = undefined
  }

  /** Ends changes; resolves when no change is under way. */
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

  // Runs one change after another; each begins with the texts that the change before left.
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
