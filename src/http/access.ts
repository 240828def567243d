import { type IncomingMessage } from 'node:http'
import { type Allowance, type Buckets } from '../clients/buckets.js'
import { ClientKeys } from '../clients/client-keys.js'
import { type Config } from '../config/schema.js'

/** What an operator says of who may ask, and how much. */
export type AccessConfig = Pick<Config, 'clients'> & { readonly limits: Pick<Config['limits'], 'client'> }

/** Who may ask, and how much: by the key that a request carries, else by the address that it comes from. */
export class Access {
  readonly buckets: Buckets
  /** Whether a hit, too, is taken from what a client may ask for. */
  readonly limitsHits: boolean
  readonly #keys: ClientKeys
  readonly #isRequired: boolean
  readonly #allowances: ReadonlyMap<string, Allowance | undefined>
  readonly #others: Allowance | undefined
  // A request is looked at where it comes in, where it is answered and where it is counted.
  readonly #names = new WeakMap<IncomingMessage, { readonly name: string | undefined }>()

  constructor (
    { clients: { keys, required }, limits: { client: { requestsPerSecond, burst, exemptHits } } }: AccessConfig,
    buckets: Buckets
  ) {
    const allowanceOf = (perSecond: number | null, most: number | null): Allowance | undefined =>
      perSecond === null ? undefined : { perSecond, burst: most ?? perSecond }
    this.buckets = buckets
    this.#keys = new ClientKeys(keys)
    this.#isRequired = required
    this.#others = allowanceOf(requestsPerSecond, burst)
    this.#allowances = new Map(keys.map(key => [key.name, allowanceOf(key.requestsPerSecond, null) ?? this.#others]))
    this.limitsHits = !exemptHits &&
      [this.#others, ...this.#allowances.values()].some(allowance => allowance !== undefined)
  }

  /** Every name that a key is configured under. */
  get names (): readonly string[] {
    return [...this.#allowances.keys()]
  }

  /** By which of them the sender of a request is known; undefined for one that sends no key that is known. */
  nameOf (request: IncomingMessage): string | undefined {
    if (this.#allowances.size === 0) return undefined
    const known = this.#names.get(request) ?? { name: this.#keys.nameIn(request.headers) }
    this.#names.set(request, known)
    return known.name
  }

  /** Whether nothing stands in the way of an answer that costs no node anything. */
  isOpenTo (request: IncomingMessage): boolean {
    return !this.limitsHits && !this.lacksKey(request)
  }

  /** Whether a key is required that the sender of a request has not. */
  lacksKey (request: IncomingMessage): boolean {
    return this.#isRequired && this.nameOf(request) === undefined
  }

  /** How much the sender of a request may ask for; undefined where that is not limited. */
  allowanceOf (request: IncomingMessage): Allowance | undefined {
    const name = this.nameOf(request)
    return name === undefined ? this.#others : this.#allowances.get(name)
  }
}
