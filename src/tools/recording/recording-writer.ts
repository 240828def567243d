import { type FileHandle, open, stat, unlink } from 'node:fs/promises'
import { type MemoryLimit } from './gathered-body.js'

/** Path and limits of a recording file. */
export interface RecordingFileOptions {
  readonly file: string
  /** True allows replacing an existing file. */
  readonly isForced: boolean
  /** Size limit of the file (law 10: nothing grows without bound). */
  readonly maxBytes: number
  readonly memory: MemoryLimit
  /** Runs once when writing has failed for good. */
  readonly onFailure: (error: Error) => void
}

/** Error for a file that exists and must not be replaced. */
export class FileExistsError extends Error {}

/** Recording written line by line; it contains whole lines only, however the recorder ends. */
export class RecordingWriter {
  readonly #options: RecordingFileOptions
  readonly #handle: FileHandle
  #lastWrite: Promise<void> = Promise.resolve()
  #bytes = 0
  #queuedBytes = 0
  #lines = 0
  #skippedLines = 0
  #isFull = false
  #hasFailed = false

  private constructor (options: RecordingFileOptions, handle: FileHandle) {
    this.#options = options
    this.#handle = handle
  }

  /** Creates a file that only its owner can read, because requests may be private even without secrets. */
  static async create (options: RecordingFileOptions, head: object): Promise<RecordingWriter> {
    const { file, isForced } = options
    const existing = await stat(file).catch(() => undefined)
    if (existing !== undefined && !existing.isFile()) throw new Error(`${file} is no file that could be written`)
    if (existing !== undefined && !isForced) {
      throw new FileExistsError(`${file} exists already: choose another name, or --force to replace it`)
    }
    // An existing file may be readable by others, so it is removed first.
    if (existing !== undefined) {
      await unlink(file).catch((error: Error) => {
        throw writeErrorOf(file, error)
      })
    }
    const handle = await open(file, 'wx', 0o600).catch((error: Error) => {
      throw writeErrorOf(file, error)
    })
    const recording = new RecordingWriter(options, handle)
    try {
      await recording.#write(jsonLineOf(head))
    } catch (error) {
      await handle.close()
      await unlink(file).catch(() => {})
      throw writeErrorOf(file, error as Error)
    }
    return recording
  }

  /** Number of lines written, without the header. */
  get lines (): number {
    return this.#lines
  }

  get bytes (): number {
    return this.#bytes
  }

  /** Lines not written because the file reached its limit or the disk was slow or full. */
  get skippedLines (): number {
    return this.#skippedLines
  }

  /** True after the file reached its size limit. */
  get isFull (): boolean {
    return this.#isFull
  }

  /** Appends a line after all earlier writes. */
  add (exchange: object): void {
    const { maxBytes, memory, onFailure, file } = this.#options
    const line = jsonLineOf(exchange)
    this.#isFull ||= this.#queuedBytes + line.length > maxBytes
    if (this.#isFull || this.#hasFailed || !memory.tryReserve(line.length)) {
      this.#skippedLines++
      return
    }
    this.#queuedBytes += line.length
    this.#lastWrite = this.#lastWrite.then(async () => {
      if (this.#hasFailed) {
        this.#skippedLines++
        return
      }
      await this.#write(line)
      this.#lines++
    }).catch((error: Error) => {
      this.#hasFailed = true
      this.#skippedLines++
      onFailure(writeErrorOf(file, error))
    }).finally(() => {
      memory.release(line.length)
    })
  }

  /** Resolves after all writes have completed or failed. */
  async close (): Promise<void> {
    await this.#lastWrite
    try {
      if (!this.#hasFailed) await this.#handle.sync()
    } catch (error) {
      throw writeErrorOf(this.#options.file, error as Error)
    } finally {
      await this.#handle.close()
    }
  }

  async #write (line: Buffer): Promise<void> {
    try {
      for (let at = 0; at < line.length;) at += (await this.#handle.write(line, at)).bytesWritten
      this.#bytes += line.length
    } catch (error) {
      // A partly written line would look like a mistake to readers.
      await this.#handle.truncate(this.#bytes).catch(() => {})
      throw error
    }
  }
}

function jsonLineOf (value: object): Buffer {
  return Buffer.from(`${JSON.stringify(value)}\n`)
}

function writeErrorOf (file: string, error: Error): Error {
  return new Error(`${file} cannot be written: ${error.message}`, { cause: error })
}
