import { Problem, type ProblemSource, statusOfCode, type ErrorCode } from './problem.js'
import { printErrorBody, problemResponse, type SandboxResponse, makeResponse, type Stamp } from './make-response.js'
import { type Ledger } from './ledger.js'
import { type LedgerSnapshot } from './request-context.js'
import { digestBytes } from './digests.js'
import { type EndpointName } from './routes.js'
import { type TailFault } from './transaction-page-fault.js'

/** Scope of a fault: the requests that it applies to. */
export interface FaultScope {
  /** Endpoint to match; default: any. */
  readonly match?: EndpointName
  /** Number of requests that the fault applies to; default: unlimited. */
  readonly times?: number
  /** Share of the matching requests, from 0 to 1, drawn from the seed. */
  readonly share?: number
}

/** Kinds of faults that a test can inject. */
export type FaultBehaviour =
  /** Delays the response; `late` reads the state before the wait, so that the response is old when it is sent. */
  | { readonly kind: 'slow', readonly ms: number, readonly late?: boolean }
  /** Never responds. */
  | { readonly kind: 'hang' }
  /** Resets the connection before any byte. */
  | { readonly kind: 'reset' }
  /** Closes the connection within the body: after half of `content-length`, or before the last chunk. */
  | { readonly kind: 'cutShort', readonly chunked?: boolean }
  /** Responds with an error in the node's own format. */
  | {
    readonly kind: 'error',
    readonly code: ErrorCode,
    readonly status?: number,
    readonly stamped?: boolean,
    readonly message?: string
  }
  /** Responds with 429 in plain text, as gateways do. */
  | { readonly kind: 'rateLimited', readonly retryAfter?: string }
  /** Sends bytes that are not HTTP. */
  | { readonly kind: 'garbage' }
  /** Responds with an HTML page of a provider and status 200. */
  | { readonly kind: 'html' }
  /** Responds with an error body, status 200 and no position, as a node does after a panic. */
  | { readonly kind: 'panic200' }
  /** Sets or removes response headers. */
  | { readonly kind: 'headers', readonly set?: Readonly<Record<string, string>>, readonly remove?: readonly string[] }
  /** Lags behind the head by `blocks` and `versions`, in its position and in the state that it reads. */
  | { readonly kind: 'lag', readonly blocks?: number, readonly versions?: number }
  /** Stays `blocks` below the height at which the fault began, as a node restored from a backup. */
  | { readonly kind: 'fallBack', readonly blocks: number }
  /** Serves a different chain with later timestamps, half as long by default. */
  | { readonly kind: 'otherChain', readonly chainId?: number, readonly blocks?: number }
  /** Replaces the body and leaves the headers of the correct response. */
  | { readonly kind: 'body', readonly body: string }
  /** Makes pages of transactions wrong at one version. */
  | TailFault

/** Fault with its scope. */
export type Fault = FaultScope & FaultBehaviour

const kinds =
  'slow hang reset cutShort error rateLimited garbage html panic200 headers lag fallBack otherChain body tail'
    .split(' ')

/** Accepts untrusted input by its kind alone; does not check other members. */
export function isFault (value: unknown): value is Fault {
  return typeof value === 'object' && value !== null && 'kind' in value &&
    kinds.includes(String(value.kind))
}

/** Active fault, with the source of the snapshot that it makes the node serve from. */
interface ActiveFault {
  readonly fault: Fault
  readonly snapshotSource: LedgerSnapshotSource | undefined
}

/** Faults and holds that apply to one request. */
export interface InjectedFaults {
  readonly faults: readonly ActiveFault[]
  readonly holds: readonly Hold[]
}

interface LimitedFault extends ActiveFault {
  remaining: number
}

/** Faults that tests or the control endpoints have added. */
export class FaultInjector {
  readonly #ledgerNow: () => Ledger
  readonly #active = new Set<LimitedFault>()
  readonly #holds = new Set<Hold>()
  #randomCalls = 0

  /** @internal */
  constructor (ledgerNow: () => Ledger) {
    this.#ledgerNow = ledgerNow
  }

  /** Active faults. */
  get list (): Fault[] {
    return [...this.#active].map(({ fault }) => fault)
  }

  /** Adds a fault, which applies from the next matching request on. */
  add (fault: Fault): { remove: () => void } {
    const entry = {
      fault,
      snapshotSource: faultSnapshotOf(fault, this.#ledgerNow()),
      remaining: fault.times ?? Infinity
    }
    this.#active.add(entry)
    return {
      remove: () => {
        this.#active.delete(entry)
      }
    }
  }

  /** Removes every fault and releases every delayed request. */
  clear (): void {
    this.#active.clear()
    for (const hold of this.#holds) hold.release()
  }

  /** Delays matching requests until the hold is released; with `late` the state is read on arrival, not on release. */
  hold (match?: EndpointName, { late = false }: { late?: boolean } = {}): Hold {
    const hold = new Hold(match, late, () => {
      this.#holds.delete(hold)
    })
    this.#holds.add(hold)
    return hold
  }

  /** @internal Selects the faults and holds for a request, and counts the request against them. */
  takeMatching (endpoint: EndpointName): InjectedFaults {
    const holds = [...this.#holds].filter(hold => hold.match === undefined || hold.match === endpoint)
    const faults = [...this.#active].filter(entry => this.#matches(entry, endpoint))
    for (const hold of holds) hold.arrive()
    return { faults, holds }
  }

  #matches (entry: LimitedFault, endpoint: EndpointName): boolean {
    const { match, share } = entry.fault
    if (match !== undefined && match !== endpoint) return false
    if (share !== undefined && this.#nextRandom() >= share) return false
    if (--entry.remaining <= 0) this.#active.delete(entry)
    return true
  }

  #nextRandom (): number {
    return digestBytes(this.#ledgerNow().seed, 'share', this.#randomCalls++).readUInt32LE() / 2 ** 32
  }
}

/** Delays matching requests until a test releases them. */
export class Hold {
  readonly match: EndpointName | undefined
  /** True if the state is read on arrival rather than on release. */
  readonly late: boolean
  /** Resolves when the first matching request has arrived. */
  readonly arrived: Promise<void>
  readonly released: Promise<void>
  readonly #onRelease: () => void
  // Assigned in the constructor, since a promise calls its executor synchronously.
  #resolveArrived!: () => void
  #resolveReleased!: () => void
  #arrivedCount = 0

  /** @internal */
  constructor (match: EndpointName | undefined, late: boolean, onRelease: () => void) {
    this.match = match
    this.late = late
    this.#onRelease = onRelease
    this.arrived = new Promise(resolve => {
      this.#resolveArrived = resolve
    })
    this.released = new Promise(resolve => {
      this.#resolveReleased = resolve
    })
  }

  /** Number of requests that have arrived. */
  get arrivedCount (): number {
    return this.#arrivedCount
  }

  /** @internal Counts a request that has arrived. */
  arrive (): void {
    this.#arrivedCount++
    this.#resolveArrived()
  }

  /** Releases all delayed requests and delays no new ones. */
  release (): void {
    this.#onRelease()
    this.#resolveReleased()
  }
}

/** Source of the snapshots that a fault makes the node serve from. */
type LedgerSnapshotSource = () => LedgerSnapshot

const dayUsec = 86_400_000_000n

/** Returns the snapshot of a node at the head. */
export function headSnapshot (ledger: Ledger): LedgerSnapshot {
  return { ledger, position: ledger.position() }
}

/** Returns the snapshots that a fault serves; undefined if the fault leaves the node at the head. */
function faultSnapshotOf (fault: Fault, ledger: Ledger): LedgerSnapshotSource | undefined {
  switch (fault.kind) {
    case 'lag':
      return () => snapshotAt(ledger, laggingHeight(ledger, fault.blocks ?? 0, BigInt(fault.versions ?? 0)))
    case 'fallBack': {
      const height = ledger.height - fault.blocks
      return () => snapshotAt(ledger, height)
    }
    case 'otherChain': {
      const other = ledger.sibling({
        seed: ledger.seed + 1_000_003,
        chainId: fault.chainId ?? ledger.chainId,
        blocks: fault.blocks ?? Math.ceil(ledger.height / 2),
        // A day after the head, so that a lower version has a later timestamp.
        startUsec: ledger.head.timestampUsec + dayUsec
      })
      return () => headSnapshot(other)
    }
    default:
      return undefined
  }
}

function snapshotAt (ledger: Ledger, height: number): LedgerSnapshot {
  return { ledger, position: ledger.position(Math.max(0, height)) }
}

function laggingHeight (ledger: Ledger, blocks: number, versions: bigint): number {
  const { lastVersion } = ledger.block(Math.max(0, ledger.height - blocks))
  const version = lastVersion - versions
  if (version <= ledger.startVersion) return 0
  const { height, lastVersion: end } = ledger.blockOf(version)
  // A head is always the end of a block.
  return Number(height) - (end > version ? 1 : 0)
}

const rateLimitText = 'Per anonymous IP rate limit exceeded. Limit: 50000 compute units per 300 seconds window.'
const htmlPage =
  '<!doctype html><html><head><title>Provider</title></head><body>Please complete the check.</body></html>\n'

/** Replaces a correct response with the response that the fault demands. */
export function applyResponseFault (response: SandboxResponse, fault: Fault, stamp: Stamp): SandboxResponse {
  switch (fault.kind) {
    case 'error':
      return problemResponse(problemOf(fault), stamp)
    case 'rateLimited':
      return {
        status: 429,
        headers: [['content-type', 'text/plain; charset=utf-8'], ['retry-after', fault.retryAfter ?? '1']],
        body: Buffer.from(rateLimitText)
      }
    case 'html':
      return { status: 200, headers: [['content-type', 'text/html; charset=utf-8']], body: Buffer.from(htmlPage) }
    case 'panic200':
      return makeResponse(200, 'framework', printErrorBody('internal error', 'internal_error'))
    case 'body':
      return { ...response, body: Buffer.from(fault.body) }
    case 'headers':
      return { ...response, headers: changeHeaders(response.headers, fault.set ?? {}, fault.remove ?? []) }
    default:
      return response
  }
}

type ErrorFault = Extract<Fault, { kind: 'error' }>

function problemOf (fault: ErrorFault): Problem {
  return new Problem(sourceOf(fault), fault.code, fault.message ?? `${fault.code} on demand`, statusOf(fault))
}

function statusOf ({ status, code }: ErrorFault): number {
  return status ?? statusOfCode[code]
}

// Nodes send no position with a 503 or with an error raised before the ledger is read.
function sourceOf (fault: ErrorFault): ProblemSource {
  if (fault.code === 'web_framework_error') return 'framework'
  const stamped = fault.stamped ?? (fault.code !== 'api_disabled' && statusOf(fault) !== 503)
  return stamped ? 'ledger' : 'verification'
}

function changeHeaders (
  headers: SandboxResponse['headers'],
  set: Readonly<Record<string, string>>,
  remove: readonly string[]
): SandboxResponse['headers'] {
  const removed = new Set([...Object.keys(set), ...remove].map(name => name.toLowerCase()))
  return [...headers.filter(([name]) => !removed.has(name.toLowerCase())), ...Object.entries(set)]
}
