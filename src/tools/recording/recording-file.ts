import { type FileHandle, open, stat, unlink } from 'node:fs/promises'
import { type Room } from './room.js'

/** How a recording is written. */
export interface RecordingFileOptions {
  readonly file: string
  /** Whether a file of that name may be replaced. */
  readonly isForced: boolean
  /** How long it may become. */
  readonly mostBytes: number
  readonly room: Room
  /** Told once when it cannot be written any more. */
  readonly onFailure: (error: Error) => void
}

/** There is a file of that name already. */
export class AlreadyThere extends Error {}

/** A recording that is written line by line. What it has is whole lines, however it ends. */
export class RecordingFile {
  readonly #options: RecordingFileOptions
  readonly #handle: FileHandle
  #tail: Promise<void> = Promise.resolve()
  #bytes = 0
  #planned = 0
  #lines = 0
  #leftOut = 0
  #isFull = false
  #hasFailed = false

  private constructor (options: RecordingFileOptions, handle: FileHandle) {
    this.#options = options
    this.#handle = handle
  }

  /**
   * Begins one, for nobody else to read: what is asked and answered may be nobody's business though no secret is in it.
   */
  static async create (options: RecordingFileOptions, head: object): Promise<RecordingFile> {
    const { file, isForced } = options
    const there = await stat(file).catch(() => undefined)
    if (there !== undefined && !there.isFile()) throw new Error(`${file} is no file that could be written`)
    if (there !== undefined && !isForced) {
      throw new AlreadyThere(`${file} is there already: take another name, or --force to replace it`)
    }
    // Made anew, since an older one may be open to others.
    if (there !== undefined) {
      await unlink(file).catch((error: Error) => {
        throw unwritable(file, error)
      })
    }
    const handle = await open(file, 'wx', 0o600).catch((error: Error) => {
      throw unwritable(file, error)
    })
    const recording = new RecordingFile(options, handle)
    try {
      await recording.#write(lineOf(head))
    } catch (error) {
      await handle.close()
      await unlink(file).catch(() => {})
      throw unwritable(file, error as Error)
    }
    return recording
  }

  /** How many lines were written, the first apart. */
  get lines (): number {
    return this.#lines
  }

  get bytes (): number {
    return this.#bytes
  }

  /** How many lines were not written, since the file was long enough, the disk too slow or full. */
  get leftOut (): number {
    return this.#leftOut
  }

  /** Whether it is as long as it may be. */
  get isFull (): boolean {
    return this.#isFull
  }

  /** Adds a line when its turn comes. */
  add (pair: object): void {
    const { mostBytes, room, onFailure, file } = this.#options
    const line = lineOf(pair)
    this.#isFull ||= this.#planned + line.length > mostBytes
    if (this.#isFull || this.#hasFailed || !room.take(line.length)) {
      this.#leftOut++
      return
    }
    this.#planned += line.length
    this.#tail = this.#tail.then(async () => {
      if (this.#hasFailed) {
        this.#leftOut++
        return
      }
      await this.#write(line)
      this.#lines++
    }).catch((error: Error) => {
      this.#hasFailed = true
      this.#leftOut++
      onFailure(unwritable(file, error))
    }).finally(() => {
      room.give(line.length)
    })
  }

  /** Everything is on the disk, or has failed before. */
  async close (): Promise<void> {
    await this.#tail
    try {
      if (!this.#hasFailed) await this.#handle.sync()
    } catch (error) {
      throw unwritable(this.#options.file, error as Error)
    } finally {
      await this.#handle.close()
    }
  }

  async #write (line: Buffer): Promise<void> {
    try {
      for (let at = 0; at < line.length;) at += (await this.#handle.write(line, at)).bytesWritten
      this.#bytes += line.length
    } catch (error) {
      // What came of the line would look like a mistake of whoever reads it.
      await this.#handle.truncate(this.#bytes).catch(() => {})
      throw error
    }
  }
}

function lineOf (value: object): Buffer {
  return Buffer.from(`${JSON.stringify(value)}\n`)
}

function unwritable (file: string, error: Error): Error {
  return new Error(`${file} cannot be written: ${error.message}`, { cause: error })
}
