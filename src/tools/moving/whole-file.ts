import { randomUUID } from 'node:crypto'
import { open, rename, rm, stat } from 'node:fs/promises'

/**
 * What is written stands under its name when it is whole, and not before; fails where nothing of that name could be
 * written.
 */
export async function writeWhole (
  file: string,
  write: (put: (bytes: Buffer) => Promise<void>) => Promise<void>
): Promise<void> {
  const there = await stat(file).catch(() => undefined)
  if (there !== undefined && !there.isFile()) throw new Error(`${file} is no file that could be written`)
  const part = `${file}.${randomUUID().slice(0, 8)}.part`
  const handle = await open(part, 'wx').catch((error: Error) => {
    throw new Error(`${file} cannot be written: ${error.message}`)
  })
  try {
    await write(async bytes => {
      for (let at = 0; at < bytes.length;) at += (await handle.write(bytes, at)).bytesWritten
    }).catch((error: NodeJS.ErrnoException) => {
      throw error.syscall === 'write' ? new Error(`${file} cannot be written: ${error.message}`) : error
    })
    await handle.sync()
    await handle.close()
    await rename(part, file)
  } catch (error) {
    await handle.close().catch(() => {})
    await rm(part, { force: true })
    throw error
  }
}
