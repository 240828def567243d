import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { pipeline, type Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'

// Instead of a file: what is sent to the command itself.
const inputName = '-'

/** How long files are together; undefined where one of them does not say, or is not there, which is told when its turn comes. */
export async function sizeOfFiles (files: readonly string[]): Promise<number | undefined> {
  // What is packed says nothing of how many lines are in it.
  if (files.some(file => file === inputName || isPacked(file))) return undefined
  const found = await Promise.all(files.map(async file => await stat(file).catch(() => undefined)))
  return found.every(file => file?.isFile()) ? found.reduce((sum, file) => sum + (file?.size ?? 0), 0) : undefined
}

/** The lines of files, one after another; those that end in .gz, as old logs do, are unpacked on the way. */
export async function * linesOfFiles (files: readonly string[], input: () => Readable): AsyncGenerator<string> {
  for (const file of files) {
    try {
      yield * createInterface({ input: file === inputName ? input() : bytesOf(file), crlfDelay: Infinity })
    } catch (error) {
      throw new Error(`${file === inputName ? 'what is piped in' : file} cannot be read: ${(error as Error).message}`, { cause: error })
    }
  }
}

function bytesOf (file: string): Readable {
  const bytes = createReadStream(file)
  // A fault of either ends what is read, with its reason.
  return isPacked(file) ? pipeline(bytes, createGunzip(), () => {}) : bytes
}

function isPacked (file: string): boolean {
  return file.endsWith('.gz')
}
