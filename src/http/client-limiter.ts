import { type FastifyRequest } from 'fastify'
import { webFrameworkError } from '../api/error-response.js'
import { type ClientPolicies } from './client-policies.js'
import { clientNetworkOf } from './client-address.js'

/** Rejects clients without access, and limits the rate of the others. */
export class ClientLimiter {
  readonly #policies: ClientPolicies

  constructor (policies: ClientPolicies) {
    this.#policies = policies
  }

  /** Rejects a request without a required key, and charges every request if hits are charged. */
  async requireAccess (request: FastifyRequest): Promise<void> {
    const lacksKey = this.#policies.lacksKey(request.raw)
    // Charges the address of a request without a key, or clients could guess keys without limit.
    if (lacksKey || this.#policies.limitsHits) await this.#charge(request)
    if (lacksKey) {
      throw webFrameworkError(
        401,
        'expected a client key: Authorization: Bearer KEY, or X-Api-Key: KEY',
        ['www-authenticate', 'Bearer']
      )
    }
  }

  /** Returns the charge of a request; undefined if its client is unlimited or already charged. */
  chargeOf (request: FastifyRequest): RequestCharge | undefined {
    const allowance = this.#policies.allowanceOf(request.raw)
    if (this.#policies.limitsHits || allowance === undefined) return undefined
    return new RequestCharge(async () => {
      await this.#charge(request)
    }, () => {
      this.#policies.buckets.refund(this.clientIdOf(request), allowance)
    })
  }

  /** Returns the client that limits and fair queueing count: a key's name, else a network. */
  clientIdOf (request: FastifyRequest): string {
    const name = this.#policies.clientNameOf(request.raw)
    return name === undefined ? clientNetworkOf(request) ?? 'unknown' : `key ${name}`
  }

  async #charge (request: FastifyRequest): Promise<void> {
    const allowance = this.#policies.allowanceOf(request.raw)
    if (allowance === undefined) return
    const waitMs = await this.#policies.buckets.take(this.clientIdOf(request), allowance)
    if (waitMs > 0) {
      const seconds = String(Math.ceil(waitMs / 1000))
      throw webFrameworkError(429, 'too many requests', ['retry-after', seconds])
    }
  }
}

/** Charge of one request, taken at most once. */
export class RequestCharge {
  readonly #charge: () => Promise<void>
  readonly #refund: () => void
  #charged: Promise<void> | undefined
  #isDue = false

  constructor (charge: () => Promise<void>, refund: () => void) {
    this.#charge = charge
    this.#refund = refund
  }

  /** Charges before an upstream request; throws if the limit is reached. */
  readonly admit = async (): Promise<void> => {
    this.#isDue = true
    await this.chargeNow()
  }

  /** Charges before it is known if an upstream is needed, since parsing a large body is expensive. */
  async chargeNow (): Promise<void> {
    await (this.#charged ??= this.#charge())
  }

  /** Refunds an early charge if no upstream request was needed. */
  refund (): void {
    if (this.#charged !== undefined && !this.#isDue) this.#refund()
  }
}
