import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { type AddressInfo } from 'node:net'
import { Asked } from './asked.js'
import { control, isControl } from './control.js'
import { Faults } from './faults.js'
import { Ledger } from './ledger.js'
import { defaults, type SandboxOptions, type Settings } from './options.js'
import { type Node, serve } from './serve.js'

export { type Asked, type AskedRequest } from './asked.js'
export { type Fault, type FaultKind, type FaultScope } from './fault.js'
export { type Faults } from './faults.js'
export { type Hold } from './hold.js'
export { type Block, type Ledger, type PrunedEvents } from './ledger.js'
export { type SandboxOptions } from './options.js'
export { type EndpointName } from './routes.js'
export { releases } from './release.js'

/** A running sandbox node. */
export interface Sandbox {
  /** Where it is, with the path prefix and without `/v1`. */
  readonly url: string
  readonly ledger: Ledger
  readonly faults: Faults
  readonly asked: Asked
  /** Ends every connection; resolves when all is down. */
  close(): Promise<void>
}

/** Starts a node on a ledger of its own. */
export async function startSandbox (options: SandboxOptions = {}): Promise<Sandbox> {
  const settings: Settings = { ...defaults, ...options }
  const ledger = new Ledger(settings)
  const node: Node = { settings, ledger, faults: new Faults(ledger), asked: new Asked() }
  const server = serverOf(node)
  server.listen(settings.port, settings.host)
  await once(server, 'listening')
  const growth = settings.blockMs > 0 ? setInterval(() => ledger.grow(), settings.blockMs).unref() : undefined
  return {
    url: `http://${hostOf(server)}${settings.pathPrefix}`,
    ledger,
    faults: node.faults,
    asked: node.asked,
    async close () {
      clearInterval(growth)
      if (!server.listening) return
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    }
  }
}

// No time limits and room for long targets, as the nodes have.
const unlimited = { maxHeaderSize: 262_144, keepAliveTimeout: 0, requestTimeout: 0, headersTimeout: 0 }

function serverOf (node: Node): Server {
  const server = createServer(unlimited, (request, response) => {
    const served = isControl(String(request.url)) ? control(node, request, response) : serve(node, request, response)
    // What fails here is a client that left within its body, or a fault of the sandbox; neither gets an answer.
    served.catch(() => request.socket.destroy())
  })
  server.on('clientError', (_, socket) => socket.end('HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n'))
  return server
}

function hostOf (server: Server): string {
  // A server that listens on a port has an address of this shape.
  const address = server.address() as AddressInfo
  return address.family === 'IPv6' ? `[${address.address}]:${address.port}` : `${address.address}:${address.port}`
}
