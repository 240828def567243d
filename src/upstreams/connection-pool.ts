import { readFileSync } from 'node:fs'
import { createSecureContext, rootCertificates, type SecureContext } from 'node:tls'
import { buildConnector, type Dispatcher, EnvHttpProxyAgent, errors, Pool } from 'undici'
import { DnsMonitor, type DnsMonitorOptions } from './dns.js'
import { type InFlightBytes } from './in-flight-bytes.js'
import { type UpstreamRequest } from './upstream-request.js'
import { type ExchangeConnections } from './exchange.js'

// Time that the connection waits beyond the caller's own timeout, in case that fails.
const headersGraceMs = 1000
// Ends idle connections before load balancers do. A longer time saves proofs: each connection that ends costs a proof
// of the chain, and nodes end none.
const idleConnectionMs = 30_000

/** Connection settings of one upstream. */
export interface UpstreamConnectionOptions extends Omit<DnsMonitorOptions, 'hostname' | 'onMoved'> {
  /** May carry a path prefix before /v1. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly maxConcurrent: number
  readonly caFile: string | null
  /** Certificate and key that the upstream asks for; both or neither. */
  readonly certFile?: string | null
  readonly keyFile?: string | null
  /** Sends requests through the proxy that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name. */
  readonly proxy?: boolean | null
  /** CAs trusted besides `caFile`; absent: those of Node.js. */
  readonly caCertificates?: readonly string[]
  /** Bodies beyond this are streamed instead of buffered. */
  readonly maxBufferedBytes: number
  /** Budget for the bytes of responses; absent in a process that serves no clients. */
  readonly inFlight?: InFlightBytes
  /** Runs when the upstream or network closes a connection, as a restart does; not after our own cancel. */
  readonly onConnectionLost?: () => void
}

/** Connections to one upstream, and the headers configured for it. */
export class ConnectionPool implements ExchangeConnections {
  readonly maxBufferedBytes: number
  readonly inFlight: InFlightBytes | undefined
  readonly #options: UpstreamConnectionOptions
  readonly #origin: string
  readonly #prefix: string
  readonly #headers: Readonly<Record<string, string>>
  // Header lines of requests without a body, by the headers object, which reads share.
  readonly #lines = new WeakMap<UpstreamRequest['headers'], string[]>()
  readonly #dnsMonitor: DnsMonitor
  readonly #tls: buildConnector.BuildOptions
  // Connection pools that may have requests in flight, of this dispatcher and of former ones.
  readonly #pools = new Set<Pool>()
  #dispatcher: Dispatcher
  #closed: Promise<unknown> | undefined

  constructor (options: UpstreamConnectionOptions) {
    const { url, headers, timeoutMs, maxBufferedBytes, inFlight } = options
    this.maxBufferedBytes = maxBufferedBytes
    this.inFlight = inFlight
    const { origin, hostname, pathname } = new URL(url)
    this.#options = options
    this.#origin = origin
    this.#prefix = pathname.replace(/\/+$/, '')
    // Converts names to lower case, so that a configured header replaces ours whatever its case.
    this.#headers = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
    this.#tls = { timeout: timeoutMs, rejectUnauthorized: true, ...tlsOptionsOf(options) }
    this.#dnsMonitor = new DnsMonitor({
      ...options,
      hostname,
      // Connects again for new requests; requests in flight end on their old connections.
      onMoved: () => {
        this.#dispatcher.close().catch(() => {})
        this.#dispatcher = this.#open()
        // Reports a loss, because the new address may be of a node on another chain.
        options.onConnectionLost?.()
      }
    })
    this.#dispatcher = this.#open()
  }

  #open (): Dispatcher {
    const { lookup } = this.#dnsMonitor
    const connectOnce = buildConnector({ ...this.#tls, ...(lookup && { lookup }) })
    const connect: buildConnector.connector = (options, callback) => {
      connectOnce(options, (...result) => {
        if (result[0] === null) this.#dnsMonitor.watch(result[1])
        callback(...result)
      })
    }
    if (this.#options.proxy !== true) return this.#openPool(this.#origin, connect)
    return new EnvHttpProxyAgent({
      // Leaves a proxy's own connector alone: the proxy's address says nothing about the upstream's name.
      factory: (origin, options) => this.#openPool(origin, (options as Pick<Pool.Options, 'connect'>).connect),
      connect,
      requestTls: this.#tls,
      // Trusts no CA of the upstream for the proxy.
      proxyTls: { ...this.#tls, secureContext: undefined },
      // Uses a tunnel for https and absolute targets for http, as other clients do.
      proxyTunnel: false
    })
  }

  #openPool (origin: string | URL, connect: Pool.Options['connect']): Pool {
    const { timeoutMs, maxConcurrent, onConnectionLost } = this.#options
    const pool = new Pool(origin, {
      connections: maxConcurrent,
      pipelining: 1,
      keepAliveTimeout: idleConnectionMs,
      // Waits longer than the caller's timer, and guards only against that timer's failure.
      headersTimeout: timeoutMs + headersGraceMs,
      bodyTimeout: timeoutMs,
      ...(connect && { connect })
    })
    pool.on('disconnect', (_origin, _targets, error) => {
      if (!isOwnAbort(error)) onConnectionLost?.()
    })
    for (const former of this.#pools) if (former.destroyed) this.#pools.delete(former)
    this.#pools.add(pool)
    return pool
  }

  /** Sends a request; the handler gets the response. */
  dispatch (request: UpstreamRequest, handler: Dispatcher.DispatchHandler): void {
    const { method, target, body, isIdempotent } = request
    this.#dispatcher.dispatch({
      origin: this.#origin,
      method: method as Dispatcher.HttpMethod,
      path: this.#prefix + target,
      headers: this.#linesOf(request),
      body: body ?? null,
      idempotent: isIdempotent
    }, handler)
  }

  #linesOf ({ headers, callerHeaders, body }: UpstreamRequest): string[] {
    const known = this.#lines.get(headers)
    if (known !== undefined && callerHeaders === undefined) return known
    const own = this.#headers
    const all = { 'user-agent': 'varve', ...callerHeaders, ...own, 'accept-encoding': 'identity', ...headers }
    const lines = Object.entries(all).flat()
    if (callerHeaders === undefined && body === undefined) this.#lines.set(headers, lines)
    return lines
  }

  /** Closes after requests in flight have ended. */
  async drain (): Promise<void> {
    this.#dnsMonitor.close()
    await this.#dispatcher.close()
  }

  /** Closes every connection; pending requests fail. */
  async close (): Promise<void> {
    this.#dnsMonitor.close()
    this.#closed ??= Promise.all([this.#dispatcher, ...this.#pools].map(async each => {
      await each.destroy()
    }))
    await this.#closed
  }
}

// Builds one context for all connections, which would each parse the CAs again; `ca` alone would replace the default
// CAs.
function tlsOptionsOf ({
  caFile,
  caCertificates = rootCertificates,
  certFile = null,
  keyFile = null
}: UpstreamConnectionOptions): { secureContext?: SecureContext } {
  if (caFile === null && certFile === null) return {}
  return {
    secureContext: createSecureContext({
      ca: caFile === null ? [...caCertificates] : [...caCertificates, readFileSync(caFile, 'utf8')],
      ...certFile !== null && keyFile !== null && {
        cert: readFileSync(certFile),
        key: readFileSync(keyFile)
      }
    })
  }
}

// Recognises undici's error for our own abort: HTTP/1.1 can cancel only by closing the connection.
function isOwnAbort (error: Error): boolean {
  return error instanceof errors.InformationalError && error.message === 'aborted'
}
