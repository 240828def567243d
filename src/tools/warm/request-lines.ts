import { createReadStream } from 'node:fs'
import { access, constants, stat } from 'node:fs/promises'
import { type Readable } from 'node:stream'
import { UsageError } from '../../app/io.js'
import { formatCount } from '../format.js'
import { parseWarmRequest } from './parse-warm-request.js'
import { type WarmClient } from './warm-client.js'
import { type WarmInput, type WarmItem } from './warm-job.js'

// Number of unreadable lines shown as examples.
const maxSamples = 3
// Four times the largest request body; longer lines are not requests.
const maxLineLength = 4 * 1024 * 1024

/** Returns the size of a file, undefined for a pipe; rejects what cannot be read before anything is fetched. */
export async function sizeOfInput (name: string): Promise<number | undefined> {
  if (name === '-') return undefined
  try {
    await access(name, constants.R_OK)
    const found = await stat(name)
    if (found.isDirectory()) throw new Error('it is a folder')
    return found.isFile() ? found.size : undefined
  } catch (error) {
    throw new UsageError(`cannot read ${name}: ${(error as Error).message}`)
  }
}

/** Reads the request in each line of a file, or of standard input, whose name is -. */
export class RequestLines implements WarmInput {
  readonly noun = 'read'
  readonly #name: string
  readonly #skip: number
  readonly #sizeBytes: number | undefined
  readonly #text: Readable
  readonly #client: WarmClient
  readonly #signal: AbortSignal
  #notCacheable = 0
  #unreadable = 0
  readonly #samples: string[] = []

  constructor (
    { name, skip, sizeBytes }: { name: string, skip: number, sizeBytes: number | undefined },
    stdin: () => Readable,
    client: WarmClient,
    signal: AbortSignal
  ) {
    this.#name = name
    this.#skip = skip
    this.#sizeBytes = sizeBytes
    this.#text = (name === '-' ? stdin() : createReadStream(name)).setEncoding('utf8')
    this.#client = client
    this.#signal = signal
    // A pipe may stay silent, so only closing it ends the read.
    signal.addEventListener('abort', () => this.#text.destroy(), { once: true })
  }

  get resume (): readonly string[] {
    return this.#resumeAfter(this.#skip)
  }

  get isWhole (): boolean {
    return this.#unreadable === 0
  }

  get notes (): readonly string[] {
    const notCacheable = formatCount(
      this.#notCacheable,
      'line is not a cacheable read',
      'lines are not cacheable reads'
    )
    const unreadable = formatCount(this.#unreadable, 'line is not a request', 'lines are not requests')
    const more = this.#unreadable > maxSamples ? ' ...' : ''
    return [
      ...(this.#notCacheable > 0 ? [notCacheable] : []),
      ...(this.#unreadable > 0 ? [`${unreadable}: ${this.#samples.join(', ')}${more}`] : [])
    ]
  }

  async *items (): AsyncGenerator<WarmItem> {
    let [number, bytes, skippedBytes] = [0, 0, 0]
    for await (const line of this.#lines()) {
      bytes += Buffer.byteLength(line) + 1
      // Skipped lines take no time, so they do not count in the estimate.
      if (++number <= this.#skip) skippedBytes = bytes
      const request = number <= this.#skip ? 'blank' : parseWarmRequest(line)
      if (request === 'not cacheable') this.#notCacheable++
      if (request === 'unreadable' && this.#unreadable++ < maxSamples) this.#samples.push(`${this.#name}:${number}`)
      if (typeof request === 'string') continue
      const resume = this.#resumeAfter(number)
      yield {
        fetch: async () => await this.#client.fetch(request),
        share: this.#sizeBytes && Math.min(1, (bytes - skippedBytes) / (this.#sizeBytes - skippedBytes)),
        resumeAfter: () => resume
      }
    }
  }

  #resumeAfter (line: number): readonly string[] {
    return ['--skip', String(line), this.#name]
  }

  /** Splits only at line feeds, because text readers also split at other characters. */
  async *#lines (): AsyncGenerator<string> {
    let rest = ''
    try {
      for await (const chunk of this.#text) {
        const lines = `${rest}${String(chunk)}`.split('\n')
        rest = lines.pop() ?? ''
        for (const line of lines) yield line
        if (rest.length > maxLineLength) throw new Error(`a line is longer than ${maxLineLength} characters`)
      }
    } catch (error) {
      if (this.#signal.aborted) return
      throw new Error(`${this.#name} cannot be read: ${(error as Error).message}`, { cause: error })
    }
    if (rest !== '') yield rest
  }
}
