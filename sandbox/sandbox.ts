import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { type AddressInfo } from 'node:net'
import { readAddress } from './address.js'
import { readBody, RequestLog, type SandboxNode, serveRequest } from './serve-request.js'
import { FaultInjector, isFault } from './faults.js'
import { Ledger, type LedgerOptions } from './ledger.js'
import { defaultSettings, type SandboxOptions, type Settings } from './options.js'
import { indexState } from './state.js'
import { fundAccount } from './submit-transaction.js'
import { pendingTransactions } from './transactions.js'

export { type RequestLog, type RequestLogEntry } from './serve-request.js'
export { type Fault, type FaultBehaviour, type FaultInjector, type FaultScope, type Hold } from './faults.js'
export { type Block, type Ledger, type PrunedEventsMode, releases } from './ledger.js'
export { type SandboxOptions } from './options.js'
export { type EndpointName } from './routes.js'

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
    // No full node has paths of its own control.
    const served = /^\/sandbox(?:[/?]|$)/.test(String(request.url))
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

const maxControlBodyBytes = 65_536
// A hundredth of what the faucet has.
const maxFunding = 10_000_000_000

/** Serves the control endpoints; the request log does not count these requests. */
async function serveControl (
  node: SandboxNode,
  request: IncomingMessage,
  response: ServerResponse
): Promise<void> {
  const url = new URL(String(request.url), 'http://sandbox')
  const body = await readBody(request, maxControlBodyBytes)
  if (request.method === 'POST' && url.pathname === '/sandbox/fund') return serveFaucet(node, body, response)
  if (request.method === 'POST' && url.pathname === '/sandbox/indexer') return serveIndexer(node, response)
  const problem = applyControl(node, `${request.method} ${url.pathname}`, url.searchParams, body)
  const status = problem === undefined ? 200 : problem === 'not found' ? 404 : 400
  response.writeHead(status, { 'content-type': 'application/json; charset=utf-8' })
  response.end(`${printState(problem === undefined ? describeState(node) : { message: problem })}\n`)
}

/** Funds an account as faucets of test chains do, so that client libraries can use it as one. */
function serveFaucet ({ ledger }: SandboxNode, body: Buffer, response: ServerResponse): void {
  const { address, amount } = (parseJson(body) ?? {}) as { address?: unknown, amount?: unknown }
  const to = typeof address === 'string' ? readAddress(address) : undefined
  const isAmount = typeof amount === 'number' && Number.isSafeInteger(amount) && amount > 0 && amount <= maxFunding
  const result = to === undefined || !isAmount
    ? { message: `expected {"address": "0x...", "amount": 1 to ${maxFunding}}` }
    : { txn_hashes: [fundAccount(ledger, to, BigInt(amount))] }
  response.writeHead('message' in result ? 400 : 200, { 'content-type': 'application/json; charset=utf-8' })
  response.end(`${JSON.stringify(result)}\n`)
}

/** Says that an indexer has all: clients ask it whether a funded account is there, and nothing else. */
function serveIndexer ({ ledger: { head: { version } } }: SandboxNode, response: ServerResponse): void {
  const status = { last_success_version: Number(version), processor: 'all', last_updated: new Date().toISOString() }
  response.writeHead(200, { 'content-type': 'application/json; charset=utf-8' })
  response.end(`${JSON.stringify({ data: { processor_status: [status] } })}\n`)
}

/** Begins another chain on a node, and removes its faults. */
function resetNode (node: SandboxNode, options: Partial<LedgerOptions> = {}): void {
  node.faults.clear()
  node.ledger = new Ledger({ ...node.settings, seed: node.ledger.seed + 1, ...options })
}

function applyControl (
  node: SandboxNode,
  action: string,
  params: URLSearchParams,
  body: Buffer
): string | undefined {
  const { ledger, faults } = node
  switch (action) {
    case 'GET /sandbox':
      return undefined
    case 'POST /sandbox/grow':
      return applyNumber(params.get('blocks') ?? '1', blocks => ledger.grow(blocks))
    case 'POST /sandbox/prune':
      return applyNumber(params.get('height') ?? '', height => ledger.pruneTo(height))
    case 'POST /sandbox/reset':
      return applyNumber(params.get('seed') ?? String(ledger.seed + 1), seed => resetNode(node, { seed }))
    case 'POST /sandbox/faults': {
      const fault = parseJson(body)
      if (!isFault(fault)) return 'a fault is a JSON object with a known "kind"'
      faults.add(fault)
      return undefined
    }
    case 'DELETE /sandbox/faults':
      faults.clear()
      return undefined
    default:
      return 'not found'
  }
}

function applyNumber (text: string, change: (count: number) => void): string | undefined {
  if (!/^[0-9]{1,6}$/.test(text)) return 'a number of up to six digits is needed'
  change(Number(text))
  return undefined
}

function parseJson (body: Buffer): unknown {
  try {
    return JSON.parse(body.toString())
  } catch {
    return undefined
  }
}

function describeState ({ settings, ledger, faults, requests }: SandboxNode): unknown {
  return {
    options: settings,
    release: ledger.release,
    head: ledger.head,
    oldest: ledger.oldest,
    waiting: pendingTransactions(ledger, ledger.height).map(({ hash }) => hash),
    requests: { total: requests.total, ...requests.counts },
    faults: faults.list
  }
}

// Prints a u64 as a string, since JSON.stringify rejects a bigint.
function printState (value: unknown): string {
  return JSON.stringify(value, (_, member: unknown) => typeof member === 'bigint' ? String(member) : member, 2)
}
