import { setTimeout as pause } from 'node:timers/promises'

/** Reads to the end at a limited rate; returns the number of bytes, also after a cut connection. */
export async function readSlowly (source: AsyncIterable<Uint8Array>, bytesPerSecond: number): Promise<number> {
  let size = 0
  const began = performance.now()
  try {
    for await (const chunk of source) {
      size += chunk.length
      await pause(Math.max(0, began + size / bytesPerSecond * 1000 - performance.now()))
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ECONNRESET') throw error
  }
  return size
}
