import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'

/** Content of a secret file, or the reason why it is unusable. */
export type SecretFileResult = { readonly text: string } | { readonly fault: string }

const maxBytes = 65_536

/** Reads a file without its final line break; a fault never quotes the content. */
export function readSecretFile (file: string): SecretFileResult {
  try {
    const bytes = readPlainFile(file)
    if (typeof bytes === 'string') return { fault: bytes }
    if (bytes.includes(0)) return { fault: 'contains a NUL byte' }
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes).replace(/\r?\n$/, '')
    return text.trim() === '' ? { fault: 'is empty' } : { text }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return {
      fault: code === 'ERR_ENCODING_INVALID_ENCODED_DATA' ? 'is not UTF-8 text' : `cannot be read (${String(code)})`
    }
  }
}

function readPlainFile (file: string): Buffer | string {
  // A pipe without a writer would block the start, and all responses at a reload.
  const descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    if (!fstatSync(descriptor).isFile()) return 'is not a regular file'
    const bytes = Buffer.alloc(maxBytes + 1)
    const length = readFully(descriptor, bytes)
    return length > maxBytes ? 'is larger than 64 KiB' : bytes.subarray(0, length)
  } finally {
    closeSync(descriptor)
  }
}

// Ignores the reported size, because the file may be generated while it is read.
function readFully (descriptor: number, bytes: Buffer): number {
  let length = 0
  for (;;) {
    const read = readSync(descriptor, bytes, length, bytes.length - length, null)
    if (read === 0) return length
    length += read
  }
}
