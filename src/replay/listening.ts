import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import { type AddressInfo } from 'node:net'
import { within } from '../within.js'

/** Where one listens. */
export interface Address {
  readonly host: string
  readonly port: number
}

/** A listener that is open. */
export interface Listening {
  readonly url: string
  /** Takes nobody new, and ends what is still under way after so long. */
  close (graceMs: number): Promise<void>
}

// No time limits and room for long targets, as nodes have.
const unlimited = { maxHeaderSize: 262_144, keepAliveTimeout: 0, requestTimeout: 0, headersTimeout: 0 }

/** Listens as a node does. */
export async function listen ({ host, port }: Address, listener: RequestListener): Promise<Listening> {
  const server = createServer(unlimited, listener)
  server.listen(port, host)
  await once(server, 'listening')
  return { url: urlOf(server), close: async graceMs => { await close(server, graceMs) } }
}

async function close (server: Server, graceMs: number): Promise<void> {
  const closed = once(server, 'close')
  server.close()
  server.closeIdleConnections()
  await within(graceMs, closed)
  server.closeAllConnections()
  await closed
}

function urlOf (server: Server): string {
  // A server that listens on a port has an address of this shape.
  const { family, address, port } = server.address() as AddressInfo
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`
}
