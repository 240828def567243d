import { promisify } from 'node:util'
import { brotliDecompress, gunzip } from 'node:zlib'
import { type Coding, codings } from '../api/coding.js'
import { type Entry } from './entry.js'

const decompress: Readonly<Record<Coding, (body: Buffer, maxOutputLength: number) => Promise<Buffer>>> = {
  br: async (body, maxOutputLength) => await promisify(brotliDecompress)(body, { maxOutputLength }),
  gzip: async (body, maxOutputLength) => await promisify(gunzip)(body, { maxOutputLength })
}

/** Finds a coding whose compressed form does not unpack to the body of its entry. */
export async function findCorruptCoding (entry: Entry): Promise<Coding | undefined> {
  for (const coding of codings) {
    const form = entry.encoded[coding]
    if (form === undefined || form.body === entry.body) continue
    const plain = await decompress[coding](form.body, entry.body.length + 1).catch(() => undefined)
    if (plain?.equals(entry.body) !== true) return coding
  }
  return undefined
}
