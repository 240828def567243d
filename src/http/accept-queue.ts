import { closeSync, openSync, readSync } from 'node:fs'
import { type AddressInfo, type Server } from 'node:net'

// The kernel lists listening sockets first, in lines of at most 176 bytes.
const readBytes = 65_536

/** Counts the connections that the kernel holds until a server accepts them; undefined if the system does not say. */
export function countWaitingConnections (server: Pick<Server, 'address'>): number | undefined {
  const address = server.address()
  return address === null || typeof address === 'string' ? undefined : countIn(address)
}

function countIn ({ family, port }: AddressInfo): number | undefined {
  const listening = new RegExp(
    `^ *\\d+: [\\dA-F]+:${port.toString(16).toUpperCase().padStart(4, '0')} [\\dA-F]+:0000 0A [\\dA-F]+:([\\dA-F]+) `,
    'gm'
  )
  const waiting = [...beginningOf(`/proc/self/net/tcp${family === 'IPv6' ? '6' : ''}`).matchAll(listening)]
  return waiting.length === 0
    ? undefined
    : waiting.reduce((sum, [, queued = '']) => sum + Number.parseInt(queued, 16), 0)
}

function beginningOf (path: string): string {
  try {
    const file = openSync(path, 'r')
    try {
      const bytes = Buffer.alloc(readBytes)
      return bytes.toString('latin1', 0, readSync(file, bytes))
    } finally {
      closeSync(file)
    }
  } catch {
    return ''
  }
}
