import { type IncomingMessage } from 'node:http'
import { type ClientRateLimit, type TokenBuckets } from '../clients/token-buckets.js'
import { ApiKeys } from '../clients/api-keys.js'
import { type Config } from '../config/schema.js'

/** Configuration of client keys and request limits. */
export type ClientPoliciesConfig = Pick<Config, 'clients'> & { readonly limits: Pick<Config['limits'], 'client'> }

/** Access and request limits of clients, by the key that a request carries, else by its address. */
export class ClientPolicies {
  readonly buckets: TokenBuckets
  /** True if hits are charged too: `exemptHits` is off and some client has a limit. */
  readonly limitsHits: boolean
  readonly #keys: ApiKeys
  readonly #isRequired: boolean
  readonly #allowances: ReadonlyMap<string, ClientRateLimit | undefined>
  readonly #defaultAllowance: ClientRateLimit | undefined
  // Looks a key up once per request: access check, limiter, metrics and log all ask for the name.
  readonly #nameByRequest = new WeakMap<IncomingMessage, { readonly name: string | undefined }>()

  constructor (
    { clients: { keys, required }, limits: { client: { requestsPerSecond, burst, exemptHits } } }: ClientPoliciesConfig,
    buckets: TokenBuckets
  ) {
    const allowanceOf = (perSecond: number | null, burstOrNull: number | null): ClientRateLimit | undefined =>
      perSecond === null ? undefined : { perSecond, burst: burstOrNull ?? perSecond }
    this.buckets = buckets
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
  clientNameOf (request: IncomingMessage): string | undefined {
    if (this.#allowances.size === 0) return undefined
    const known = this.#nameByRequest.get(request) ?? { name: this.#keys.nameFor(request.headers) }
    this.#nameByRequest.set(request, known)
    return known.name
  }

  /** Returns true if a hit needs neither a key check nor a charge, so that the fast path may serve it. */
  isUnrestricted (request: IncomingMessage): boolean {
    return !this.limitsHits && !this.lacksKey(request)
  }

  /** Returns true if a key is required and the request carries no known one. */
  lacksKey (request: IncomingMessage): boolean {
    return this.#isRequired && this.clientNameOf(request) === undefined
  }

  /** Returns the request limit of a client; undefined means unlimited. */
  allowanceOf (request: IncomingMessage): ClientRateLimit | undefined {
    const name = this.clientNameOf(request)
    return name === undefined ? this.#defaultAllowance : this.#allowances.get(name)
  }
}
