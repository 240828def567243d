import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { type AddressInfo } from 'node:net'
import { RequestLog, type SandboxNode, serveRequest } from './serve-request.js'
import { resetNode, serveControl, isControlTarget } from './control-endpoints.js'
import { FaultInjector } from './faults.js'
import { Ledger } from './ledger.js'
import { defaultSettings, type SandboxOptions, type Settings } from './options.js'
import { indexState } from './state.js'

export { type RequestLog, type RequestLogEntry } from './serve-request.js'
export { type Fault, type FaultBehaviour, type FaultScope } from './faults.js'
export { type FaultInjector } from './faults.js'
export { type Hold } from './faults.js'
export { type Block, type Ledger, type PrunedEventsMode } from './ledger.js'
export { type SandboxOptions } from './options.js'
export { type EndpointName } from './routes.js'
export { releases } from './ledger.js'

/** Running sandbox node. */
export interface Sandbox {
  /** Base URL with the path prefix, without `/v1`. */
  readonly url: string
  readonly ledger: Ledger
  readonly faults: FaultInjector
  readonly requests: RequestLog
  /** Begins another chain of the same name, with the next seed unless the options say another; removes the faults. */
  reset(options?: Pick<SandboxOptions, 'seed' | 'blocks' | 'prunedBlocks'>): void
  /** Closes the server and every connection; resolves when both are closed. */
  close(): Promise<void>
}

/** Starts a sandbox node with its own ledger; resolves when it listens. */
export async function startSandbox (options: SandboxOptions = {}): Promise<Sandbox> {
  const settings: Settings = { ...defaultSettings, ...options }
  const node: SandboxNode = {
    settings,
    ledger: new Ledger(settings),
    faults: new FaultInjector(() => node.ledger),
    requests: new RequestLog()
  }
  const server = serverOf(node)
  server.listen(settings.port, settings.host)
  await once(server, 'listening')
  const growth = settings.blockMs > 0 ? growSteadily(node) : undefined
  return {
    url: `http://${hostAndPortOf(server)}${settings.pathPrefix}`,
    get ledger () {
      return node.ledger
    },
    faults: node.faults,
    requests: node.requests,
    reset: options => resetNode(node, options),
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

// Indexes each block at once, so that no read has to wait for the index of all transactions before.
function growSteadily (node: SandboxNode): NodeJS.Timeout {
  return setInterval(() => {
    node.ledger.grow()
    indexState(node.ledger, node.ledger.head.version)
  }, node.settings.blockMs).unref()
}

// Nodes have no time limits and accept long targets.
const serverOptions = { maxHeaderSize: 262_144, keepAliveTimeout: 0, requestTimeout: 0, headersTimeout: 0 }

function serverOf (node: SandboxNode): Server {
  const server = createServer(serverOptions, (request, response) => {
    const served = isControlTarget(String(request.url))
      ? serveControl(node, request, response)
      : serveRequest(node, request, response)
    // Fails if a client disconnects within its body or the sandbox has a bug; neither gets a response.
    served.catch(() => request.socket.destroy())
  })
  server.on('clientError', (_, socket) => socket.end('HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n'))
  return server
}

function hostAndPortOf (server: Server): string {
  // A server that listens on a port has an address of this shape.
  const address = server.address() as AddressInfo
  return address.family === 'IPv6' ? `[${address.address}]:${address.port}` : `${address.address}:${address.port}`
}
