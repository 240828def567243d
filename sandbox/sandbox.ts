import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { type AddressInfo } from 'node:net'
import { RequestLog } from './request-log.js'
import { resetNode, serveControl, isControlTarget } from './control-endpoints.js'
import { FaultInjector } from './fault-injector.js'
import { Ledger } from './ledger.js'
import { defaultSettings, type SandboxOptions, type Settings } from './options.js'
import { type SandboxNode, serveRequest } from './serve-request.js'
import { indexState } from './state.js'
import { extendAccumulator, prerenderNewest } from './transactions.js'

export { type RequestLog, type RequestLogEntry } from './request-log.js'
export { type Fault, type FaultBehaviour, type FaultScope } from './fault.js'
export { type FaultInjector } from './fault-injector.js'
export { type Hold } from './hold.js'
export { type Block, type Ledger, type PrunedEventsMode } from './ledger.js'
export { type SandboxOptions } from './options.js'
export { type EndpointName } from './routes.js'
export { releases } from './release.js'

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
  const growth = settings.blockMs > 0 ? growSteadily(node, server) : undefined
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

// Few enough to take about half a millisecond.
const indexedAtOnce = 16
const printedAtOnce = 2

function growSteadily (node: SandboxNode, server: Server): NodeJS.Timeout {
  let isWorking = false
  const prepareMore = (): void => {
    isWorking = server.listening && prepareSome(node.ledger)
    // Keeps the process running, since an immediate without a reference waits for the next event.
    if (isWorking) setImmediate(prepareMore)
  }
  return setInterval(() => {
    node.ledger.grow()
    if (!isWorking) prepareMore()
  }, node.settings.blockMs).unref()
}

// Works in slices between requests, so that no read has to wait for the index of all transactions before.
function prepareSome (ledger: Ledger): boolean {
  const { head, startVersion, state } = ledger
  const next = startVersion + BigInt(state.next + indexedAtOnce)
  const upTo = next < head.version ? next : head.version
  indexState(ledger, upTo)
  extendAccumulator(ledger, upTo)
  return upTo < head.version || prerenderNewest(ledger, printedAtOnce)
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
