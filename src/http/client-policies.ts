import { type Socket } from 'node:net'
import { type ClientRateLimit, type TokenBuckets } from '../clients/token-buckets.js'
import { ApiKeys } from '../clients/api-keys.js'
import { type Config } from '../config/schema.js'
import { webFrameworkError } from '../api/error-response.js'
import {
  clientAddressOf,
  networkOf,
  type RequestSource,
  trustedProxyCheck,
  type TrustedProxyCheck
} from './client-address.js'

/** Access and request limits of clients, by the key that a request carries, else by its address. */
export class ClientPolicies {
  /** True if hits are charged too: `exemptHits` is off and some client has a limit. */
  readonly limitsHits: boolean
  readonly #buckets: TokenBuckets
  readonly #keys: ApiKeys
  readonly #isRequired: boolean
  readonly #allowances: ReadonlyMap<string, ClientRateLimit | undefined>
  readonly #defaultAllowance: ClientRateLimit | undefined
  // Looks a key up once per request: access check, limiter, metrics and log all ask for the name.
  readonly #nameByRequest = new WeakMap<RequestSource, { readonly name: string | undefined }>()
  // Undefined without a trusted proxy: all requests of a connection then have its network.
  readonly #isTrustedProxy: TrustedProxyCheck | undefined
  readonly #networkByConnection = new WeakMap<Socket, string>()

  constructor (
    { clients: { keys, required }, limits, trustProxy }: Pick<Config, 'clients' | 'limits' | 'trustProxy'>,
    buckets: TokenBuckets
  ) {
    this.#isTrustedProxy = trustProxy.length === 0 ? undefined : trustedProxyCheck(trustProxy)
    const { requestsPerSecond, burst, exemptHits } = limits.client
    const allowanceOf = (perSecond: number | null, burstOrNull: number | null): ClientRateLimit | undefined =>
      perSecond === null ? undefined : { perSecond, burst: burstOrNull ?? perSecond }
    this.#buckets = buckets
    this.#keys = new ApiKeys(keys)
    this.#isRequired = required
    this.#defaultAllowance = allowanceOf(requestsPerSecond, burst)
    this.#allowances = new Map(
      keys.map(key => [key.name, allowanceOf(key.requestsPerSecond, null) ?? this.#defaultAllowance])
    )
    this.limitsHits = !exemptHits &&
      [this.#defaultAllowance, ...this.#allowances.values()].some(allowance => allowance !== undefined)
  }

  /** Lists the configured names of client keys. */
  get clientNames (): readonly string[] {
    return [...this.#allowances.keys()]
  }

  /** Returns the configured name of the client's key; undefined without a known key. */
  clientNameOf (request: RequestSource): string | undefined {
    if (this.#allowances.size === 0) return undefined
    const known = this.#nameByRequest.get(request) ?? { name: this.#keys.nameFor(request.headers) }
    this.#nameByRequest.set(request, known)
    return known.name
  }

  /** Returns true if a read needs neither a key check nor a charge before it is looked up. */
  isUnrestricted (request: RequestSource): boolean {
    return !this.limitsHits && !this.lacksKey(request)
  }

  /**
   * Charges a hit without waiting, if hits are charged. False if only the router can decide, which then charges the
   * request itself: its client lacks a key, has reached its limit, or is counted by another process.
   */
  chargeHit (request: RequestSource): boolean {
    if (this.lacksKey(request)) return false
    const allowance = this.limitsHits ? this.#allowanceOf(request) : undefined
    return allowance === undefined || this.#buckets.takeNow?.(this.clientIdOf(request), allowance) === 0
  }

  /** Refunds the charge of a request that turned out to be no hit. */
  refundHit (request: RequestSource): void {
    const allowance = this.limitsHits ? this.#allowanceOf(request) : undefined
    if (allowance !== undefined) this.#buckets.refund(this.clientIdOf(request), allowance)
  }

  /** Returns true if a key is required and the request carries no known one. */
  lacksKey (request: RequestSource): boolean {
    return this.#isRequired && this.clientNameOf(request) === undefined
  }

  /** Returns the identity by which limits and fair queueing count clients: a key's name, else a network. */
  clientIdOf (request: RequestSource): string {
    const name = this.clientNameOf(request)
    if (name !== undefined) return `key ${name}`
    const known = this.#networkByConnection.get(request.socket)
    if (known !== undefined) return known
    const network = networkOf(this.addressOf(request)) ?? 'unknown'
    if (this.#isTrustedProxy === undefined) this.#networkByConnection.set(request.socket, network)
    return network
  }

  /** Returns the client's address as the connection or a trusted proxy reports it, never the client's own claim. */
  addressOf (request: RequestSource): string | undefined {
    return clientAddressOf(request, this.#isTrustedProxy)
  }

  /** Rejects a request without a required key, and charges every request if hits are charged. */
  async requireAccess (request: RequestSource): Promise<void> {
    const lacksKey = this.lacksKey(request)
    // Charges the address of a request without a key, or clients could guess keys without limit.
    if (lacksKey || this.limitsHits) await this.#charge(request)
    if (lacksKey) {
      throw webFrameworkError(
        401,
        'expected a client key: Authorization: Bearer KEY, or X-Api-Key: KEY',
        ['www-authenticate', 'Bearer']
      )
    }
  }

  /** Returns the charge of a request, taken at most once; undefined if its client is unlimited or already charged. */
  chargeOf (request: RequestSource) {
    const allowance = this.#allowanceOf(request)
    if (this.limitsHits || allowance === undefined) return undefined
    let charged: Promise<void> | undefined
    let isDue = false
    const chargeNow = async (): Promise<void> => await (charged ??= this.#charge(request))
    return {
      /** Charges before an upstream request; throws if the limit is reached. */
      admit: async (): Promise<void> => {
        isDue = true
        await chargeNow()
      },
      /** Charges before it is known whether an upstream is needed, since parsing a large body is expensive. */
      chargeNow,
      /** Refunds an early charge if no upstream request was needed. */
      refund: (): void => {
        if (charged !== undefined && !isDue) this.#buckets.refund(this.clientIdOf(request), allowance)
      }
    }
  }

  async #charge (request: RequestSource): Promise<void> {
    const allowance = this.#allowanceOf(request)
    if (allowance === undefined) return
    const waitMs = await this.#buckets.take(this.clientIdOf(request), allowance)
    if (waitMs > 0) {
      const { perSecond, burst } = allowance
      const seconds = String(Math.ceil(waitMs / 1000))
      const [policy, text] = this.clientNameOf(request) === undefined
        ? ['address', 'an address (limits.client.requestsPerSecond)']
        : ['key', 'this key']
      // draft-ietf-httpapi-ratelimit-headers: the quota of a window, and what is left of it.
      throw webFrameworkError(429, `too many requests: ${perSecond} per second for ${text}`, [
        'retry-after',
        seconds,
        'ratelimit-policy',
        `"${policy}";q=${Math.max(1, Math.floor(burst))};w=${Math.ceil(burst / perSecond)}`,
        'ratelimit',
        `"${policy}";r=0;t=${seconds}`
      ])
    }
  }

  /** Returns the request limit of a client; undefined means unlimited. */
  #allowanceOf (request: RequestSource): ClientRateLimit | undefined {
    const name = this.clientNameOf(request)
    return name === undefined ? this.#defaultAllowance : this.#allowances.get(name)
  }
}

/** Charge of one request. */
export type RequestCharge = NonNullable<ReturnType<ClientPolicies['chargeOf']>>
