import { once } from 'node:events'
import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http'
import { type AddressInfo, Server as TcpServer } from 'node:net'
import { within } from '../../within.js'

/** Where one listens. */
export interface Address {
  readonly host: string
  readonly port: number
}

/** A listener that is open. */
export interface Listening {
  readonly url: string
  /** Takes nobody new, and ends what is still under way after so long. */
  close(graceMs: number): Promise<void>
}

// No time limits and room for long targets, as nodes have.
const unlimited = { maxHeaderSize: 262_144, keepAliveTimeout: 0, requestTimeout: 0, headersTimeout: 0 }

/** Listens as a node does. */
export async function listen ({ host, port }: Address, listener: RequestListener): Promise<Listening> {
  const underWay = new Set<ServerResponse>()
  let closing: { readonly quiet: () => void } | undefined
  const server = createServer(unlimited, (request, response) => {
    // Who asks on, on a connection that was kept, would be cut off within its answer.
    if (closing !== undefined) {
      request.socket.destroy()
      return
    }
    underWay.add(response)
    response.once('close', () => {
      underWay.delete(response)
      if (underWay.size === 0) closing?.quiet()
    })
    listener(request, response)
  })
  server.listen(port, host)
  await once(server, 'listening')
  return {
    url: urlOf(server),
    close: async graceMs => {
      const closed = server.listening ? once(server, 'close') : undefined
      // That of an HTTP server would also end each connection whose answer has ended but has not all been taken yet.
      TcpServer.prototype.close.call(server)
      await within(
        graceMs,
        new Promise<void>(resolve => {
          closing = { quiet: resolve }
          if (underWay.size === 0) resolve()
        })
      )
      server.closeAllConnections()
      await closed
    }
  }
}

function urlOf (server: Server): string {
  // A server that listens on a port has an address of this shape.
  const { family, address, port } = server.address() as AddressInfo
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`
}
