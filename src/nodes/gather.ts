import { type Readable } from 'node:stream'
import { type Headers } from '../ledger/position.js'
import { type Answer } from '../reads/answer.js'

/** Gathers a body up to a number of bytes; what is longer is handed over as its beginning and the rest to come. */
export async function gather (source: Readable, headers: Headers, maxBytes: number): Promise<Pick<Answer, 'body' | 'rest'>> {
  const chunks = source[Symbol.asyncIterator]() as AsyncIterator<Buffer>
  const gathered: Buffer[] = []
  let size = 0
  // Who lets go of what has come whole, but was never read, would end the process: nobody else listens for that error.
  source.on('error', () => {})
  const rest = { [Symbol.asyncIterator]: () => chunks, destroy: () => { source.destroy() } }
  // One that says how large it is need not be held at all.
  if (Number(headers['content-length']) > maxBytes) return { body: Buffer.alloc(0), rest }
  while (size <= maxBytes) {
    const { done, value } = await chunks.next()
    if (done === true) return { body: Buffer.concat(gathered), rest: undefined }
    gathered.push(value)
    size += value.length
  }
  return { body: Buffer.concat(gathered), rest }
}
