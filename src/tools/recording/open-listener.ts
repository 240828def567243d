import { once } from 'node:events'
import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http'
import { type AddressInfo, Server as TcpServer } from 'node:net'
import { withTimeout } from '../../with-timeout.js'

/** Address to listen on. */
export interface ListenAddress {
  readonly host: string
  readonly port: number
}

/** Open listener with its address. */
export interface OpenListener {
  readonly url: string
  /** Accepts no new connection and ends requests in flight after the grace period. */
  close(graceMs: number): Promise<void>
}

// Full nodes accept long targets, and no time limit may change a recording.
const unlimited = { maxHeaderSize: 262_144, keepAliveTimeout: 0, requestTimeout: 0, headersTimeout: 0 }

/** Opens a listener with the limits of a full node. */
export async function openListener ({ host, port }: ListenAddress, listener: RequestListener): Promise<OpenListener> {
  const inFlight = new Set<ServerResponse>()
  let drainWaiter: { readonly quiet: () => void } | undefined
  const server = createServer(unlimited, (request, response) => {
    // Another request on a keep-alive connection would be cut off within its response.
    if (drainWaiter !== undefined) {
      request.socket.destroy()
      return
    }
    inFlight.add(response)
    response.once('close', () => {
      inFlight.delete(response)
      if (inFlight.size === 0) drainWaiter?.quiet()
    })
    listener(request, response)
  })
  server.listen(port, host)
  await once(server, 'listening')
  return {
    url: urlOf(server),
    close: async graceMs => {
      const closed = server.listening ? once(server, 'close') : undefined
      // `close` of an HTTP server would also end connections whose response is not fully sent yet.
      TcpServer.prototype.close.call(server)
      await withTimeout(
        graceMs,
        new Promise<void>(resolve => {
          drainWaiter = { quiet: resolve }
          if (inFlight.size === 0) resolve()
        })
      )
      server.closeAllConnections()
      await closed
    }
  }
}

function urlOf (server: Server): string {
  const { family, address, port } = server.address() as AddressInfo
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`
}
