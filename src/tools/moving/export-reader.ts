import { unseal } from '../../cluster/seal.js'
import { generationIn, purgeIn } from '../../cluster/shapes.js'
import { ByteSource, EndsEarly } from './byte-source.js'
import { endless, type ExportHead, fileFormat, longestText, type Part, partMarks, Refused, signature } from './words.js'

/** Reads an export part by part, and refuses what is not one to the last byte. */
export class ExportReader {
  readonly #source: ByteSource
  readonly #longestValue: number
  #entries = 0n

  constructor (chunks: AsyncIterable<Buffer>, longestValue: number) {
    this.#source = new ByteSource(chunks)
    this.#longestValue = longestValue
  }

  /** How much of it was read. */
  get bytes (): number {
    return this.#source.at
  }

  async head (): Promise<ExportHead> {
    return await this.#whole(async () => {
      // Cut off in here it is still known for what it is.
      for (const byte of signature) {
        if ((await this.#source.take(1))[0] !== byte) throw new Refused('this is no export of varve')
      }
      const format = await this.#u8()
      if (format > fileFormat) {
        throw new Refused(`the file has format ${format}, which this varve does not know: bring it in with a newer one`)
      }
      if (format !== fileFormat) throw new Refused('the file is damaged: no such format')
      const head = headIn(await this.#text())
      if (head === undefined) throw new Refused('the file is damaged: its head is not what was written')
      return head
    })
  }

  /** The next part; undefined when the end was reached, and all that came before it is what was written. */
  async next (): Promise<Part | undefined> {
    return await this.#whole(async () => {
      const at = this.#source.at
      const mark = await this.#u8()
      if (mark === partMarks.entry) return await this.#entry()
      if (mark === partMarks.end) return await this.#end()
      const purge = mark === partMarks.purge ? purgeIn(await this.#text()) : undefined
      if (purge === undefined) throw new Refused(`the file is damaged at byte ${at}`)
      return { kind: 'purge', purge }
    })
  }

  async #entry (): Promise<Part> {
    const key = (await this.#source.take((await this.#source.take(2)).readUInt16BE())).toString()
    const ttl = (await this.#source.take(8)).readBigUInt64BE()
    const length = (await this.#source.take(4)).readUInt32BE()
    this.#entries++
    if (length > this.#longestValue) {
      await this.#source.skip(length)
      return { kind: 'too long' }
    }
    const value = await this.#source.take(length)
    return { kind: 'entry', entry: { key, ttlMs: ttl === endless ? undefined : Number(ttl), value } }
  }

  async #end (): Promise<undefined> {
    const entries = (await this.#source.take(8)).readBigUInt64BE()
    const digest = this.#source.digest
    const written = await this.#source.take(digest.length)
    if (!written.equals(digest)) {
      throw new Refused('the file is damaged: it has not the digest that it was written with')
    }
    if (entries !== this.#entries) {
      throw new Refused(`the file is damaged: it has ${this.#entries} entries and claims ${entries}`)
    }
    if (!await this.#source.isAtEnd()) throw new Refused('the file is damaged: it goes on after its end')
  }

  async #u8 (): Promise<number> {
    return (await this.#source.take(1)).readUInt8()
  }

  async #text (): Promise<string> {
    const length = (await this.#source.take(4)).readUInt32BE()
    if (length > longestText) throw new Refused(`the file is damaged: nothing in it is ${length} bytes long`)
    return (await this.#source.take(length)).toString()
  }

  async #whole<T> (read: () => Promise<T>): Promise<T> {
    try {
      return await read()
    } catch (error) {
      if (!(error instanceof EndsEarly)) throw error
      throw new Refused(
        this.#source.at === 0
          ? 'the file is empty'
          : `the file was cut off: it ends after ${this.#source.at} bytes, before its own end`
      )
    }
  }
}

function headIn (text: string): ExportHead | undefined {
  const value = unseal(text) as Partial<Record<keyof ExportHead, unknown>> | null | undefined
  const known = generationIn(text)
  const { chainId, generation, begunAtMs } = value ?? {}
  if (
    known === undefined || !isWhole(chainId, 255) || !isWhole(generation, 999_999_999_999_999) ||
    !isWhole(begunAtMs, Number.MAX_SAFE_INTEGER)
  ) return undefined
  return { chainId, generation, begunAtMs, anchors: known.anchors, head: known.head }
}

function isWhole (value: unknown, most: number): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0 && Number(value) <= most
}
