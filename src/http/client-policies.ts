import { type Socket } from 'node:net'
import { type ClientRateLimit, type TokenBuckets } from '../clients/token-buckets.js'
import { ApiKeys } from '../clients/api-keys.js'
import { type Config } from '../config/schema.js'
import { disabledError, type ErrorResponse, webFrameworkError } from '../api/error-response.js'
import {
  clientAddressOf,
  networkOf,
  type RequestSource,
  trustedProxyCheck,
  type TrustedProxyCheck
} from './client-address.js'

type ClientKey = Config['clients']['keys'][number]

/** Limit of a client, with its name in headers and its words in a message. */
interface Limit extends ClientRateLimit {
  readonly policy: 'address' | 'key' | 'key-day'
  readonly text: string
}

const secondsPerDay = 86_400

/** Access and request limits of clients, by the key that a request carries, else by its address. */
export class ClientPolicies {
  /** True if hits are charged too: `exemptHits` is off and some client has a limit. */
  readonly limitsHits: boolean
  readonly #buckets: TokenBuckets
  readonly #keys: ApiKeys
  readonly #isRequired: boolean
  readonly #byName: ReadonlyMap<string, ClientKey & { readonly limits: readonly Limit[] }>
  readonly #addressLimits: readonly Limit[]
  // True if some key may use certain endpoints or origins only.
  readonly #restricts: boolean
  // Looks a key up once per request: access check, limiter, metrics and log all ask for the name.
  readonly #nameByRequest = new WeakMap<RequestSource, { readonly name: string | undefined }>()
  // Check for trusted proxies; undefined without any: all requests of a connection then have its network.
  readonly #isTrustedProxy: TrustedProxyCheck | undefined
  readonly #networkByConnection = new WeakMap<Socket, string>()

  constructor (
    { clients: { keys, required }, limits, trustProxy }: Pick<Config, 'clients' | 'limits' | 'trustProxy'>,
    buckets: TokenBuckets
  ) {
    this.#isTrustedProxy = trustProxy.length === 0 ? undefined : trustedProxyCheck(trustProxy)
    const { requestsPerSecond, burst, exemptHits } = limits.client
    this.#buckets = buckets
    this.#keys = new ApiKeys(keys)
    this.#isRequired = required
    this.#addressLimits = requestsPerSecond === null ? [] : [{
      policy: 'address',
      perSecond: requestsPerSecond,
      burst: burst ?? requestsPerSecond,
      text: `${requestsPerSecond} per second for an address (limits.client.requestsPerSecond)`
    }]
    this.#byName = new Map(keys.map(key => [key.name, { ...key, limits: limitsOf(key, this.#addressLimits) }]))
    this.#restricts = keys.some(isRestricted)
    this.limitsHits = !exemptHits &&
      [this.#addressLimits, ...[...this.#byName.values()].map(key => key.limits)].some(({ length }) => length > 0)
  }

  /** Lists the configured names of client keys. */
  get clientNames (): readonly string[] {
    return [...this.#byName.keys()]
  }

  /** Returns the configured name of the client's key; undefined without a known key. */
  clientNameOf (request: RequestSource): string | undefined {
    if (this.#byName.size === 0) return undefined
    const known = this.#nameByRequest.get(request) ?? { name: this.#keys.nameFor(request.headers) }
    this.#nameByRequest.set(request, known)
    return known.name
  }

  /** Returns true if a read needs neither a key check nor a charge before it is looked up. */
  isUnrestricted (request: RequestSource): boolean {
    return !this.limitsHits && !this.lacksKey(request) && this.#restrictedKeyOf(request) === undefined
  }

  /**
   * Charges a hit without waiting, if hits are charged. Returns false if only the router can decide, which then charges
   * the request itself. The router decides on a client without a key, with a restricted key or two limits, at its
   * limit, or counted by another process.
   */
  chargeHit (request: RequestSource): boolean {
    if (this.lacksKey(request) || this.#restrictedKeyOf(request) !== undefined) return false
    const [limit, second] = this.limitsHits ? this.#limitsOf(request) : []
    return limit === undefined ||
      (second === undefined && this.#buckets.takeNow?.(this.#bucketOf(request, limit), limit) === 0)
  }

  /** Refunds the charge of a request that was no hit. */
  refundHit (request: RequestSource): void {
    if (this.limitsHits) this.#refund(request)
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

  /**
   * Rejects a request without a required key, or that its key does not allow. Charges every request if hits are
   * charged.
   */
  async requireAccess (request: RequestSource, endpointOf: () => string): Promise<void> {
    const lacksKey = this.lacksKey(request)
    // Charges the address of a request without a key, because clients could otherwise guess keys without limit.
    if (lacksKey || this.limitsHits) await this.#charge(request)
    if (lacksKey) {
      throw webFrameworkError(
        401,
        'expected a client key: Authorization: Bearer KEY, or X-Api-Key: KEY',
        ['www-authenticate', 'Bearer']
      )
    }
    const { origins, endpoints } = this.#restrictedKeyOf(request) ?? { origins: null, endpoints: null }
    if (origins?.includes(request.headers.origin ?? '') === false) {
      throw disabledError('this key is not for requests of this Origin')
    }
    if (endpoints !== null && !endpoints.some(name => name === endpointOf())) {
      throw disabledError(`this key is not for the endpoint ${endpointOf()}`)
    }
  }

  /** Returns the charge of a request, taken at most once; undefined if its client is unlimited or already charged. */
  chargeOf (request: RequestSource) {
    if (this.limitsHits || this.#limitsOf(request).length === 0) return undefined
    let charged: Promise<void> | undefined
    let isDue = false
    const chargeNow = async (): Promise<void> => await (charged ??= this.#charge(request))
    return {
      /** Charges before an upstream request; throws beyond the limit. */
      admit: async (): Promise<void> => {
        isDue = true
        await chargeNow()
      },
      /** Charges early, before it is known if an upstream is needed, since parsing a large body is expensive. */
      chargeNow,
      /** Refunds an early charge if no upstream request was needed. */
      refund: (): void => {
        if (charged !== undefined && !isDue) this.#refund(request)
      }
    }
  }

  async #charge (request: RequestSource): Promise<void> {
    const taken: Limit[] = []
    for (const limit of this.#limitsOf(request)) {
      const waitMs = await this.#buckets.take(this.#bucketOf(request, limit), limit)
      if (waitMs > 0) {
        this.#refund(request, taken)
        throw limitError(limit, waitMs)
      }
      taken.push(limit)
    }
  }

  #refund (request: RequestSource, limits = this.#limitsOf(request)): void {
    for (const limit of limits) this.#buckets.refund(this.#bucketOf(request, limit), limit)
  }

  #bucketOf (request: RequestSource, { policy }: Limit): string {
    const id = this.clientIdOf(request)
    return policy === 'key-day' ? `${id} day` : id
  }

  /** Lists the request limits of a client; none means unlimited. */
  #limitsOf (request: RequestSource): readonly Limit[] {
    const name = this.clientNameOf(request)
    return name === undefined ? this.#addressLimits : this.#byName.get(name)?.limits ?? []
  }

  #restrictedKeyOf (request: RequestSource): ClientKey | undefined {
    const name = this.#restricts ? this.clientNameOf(request) : undefined
    const key = name === undefined ? undefined : this.#byName.get(name)
    return key !== undefined && isRestricted(key) ? key : undefined
  }
}

function limitsOf ({ requestsPerSecond, requestsPerDay }: ClientKey, [ofAddress]: readonly Limit[]): Limit[] {
  const perSecond = requestsPerSecond ?? ofAddress?.perSecond
  const burst = requestsPerSecond ?? ofAddress?.burst
  const limits: Limit[] = []
  if (perSecond !== undefined && burst !== undefined) {
    limits.push({ policy: 'key', perSecond, burst, text: `${perSecond} per second for this key` })
  }
  if (requestsPerDay !== null) {
    limits.push({
      policy: 'key-day',
      perSecond: requestsPerDay / secondsPerDay,
      burst: requestsPerDay,
      text: `${requestsPerDay} per day for this key`
    })
  }
  return limits
}

function isRestricted ({ endpoints, origins }: ClientKey): boolean {
  return endpoints !== null || origins !== null
}

function limitError ({ policy, perSecond, burst, text }: Limit, waitMs: number): ErrorResponse {
  const seconds = String(Math.ceil(waitMs / 1000))
  // Prints the quota of a window and its rest, as in draft-ietf-httpapi-ratelimit-headers.
  return webFrameworkError(429, `too many requests: ${text}`, [
    'retry-after',
    seconds,
    'ratelimit-policy',
    `"${policy}";q=${Math.max(1, Math.floor(burst))};w=${Math.ceil(burst / perSecond)}`,
    'ratelimit',
    `"${policy}";r=0;t=${seconds}`
  ])
}

/** Charge of one request. */
export type RequestCharge = NonNullable<ReturnType<ClientPolicies['chargeOf']>>
