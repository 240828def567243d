import { promisify } from 'node:util'
import { brotliDecompress, gunzip } from 'node:zlib'
import { type Coding, codings } from '../api/coding.js'
import { type Entry } from './entry.js'

const unpack: Readonly<Record<Coding, (body: Buffer, maxOutputLength: number) => Promise<Buffer>>> = {
  br: async (body, maxOutputLength) => await promisify(brotliDecompress)(body, { maxOutputLength }),
  gzip: async (body, maxOutputLength) => await promisify(gunzip)(body, { maxOutputLength })
}

/** The coding whose form does not unpack to the body of its entry; undefined where each that was made does. */
export async function wrongFormOf (entry: Entry): Promise<Coding | undefined> {
  for (const coding of codings) {
    const form = entry.coded[coding]
    if (form === undefined || form.body === entry.body) continue
    const plain = await unpack[coding](form.body, entry.body.length + 1).catch(() => undefined)
    if (plain?.equals(entry.body) !== true) return coding
  }
  return undefined
}
