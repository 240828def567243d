import { fastifyRateLimit, type FastifyRateLimitStore } from '@fastify/rate-limit'
import { type FastifyInstance, type FastifyRequest } from 'fastify'
import { type Allowance, type Buckets } from '../clients/buckets.js'
import { Refusal } from '../api/refusal.js'
import { type Access } from './access.js'
import { clientOf } from './client-of.js'

const unlimited: Allowance = { perSecond: Infinity, burst: Infinity }

/** Lets in who may ask at all, and holds each client to what it may ask for. */
export class Limits {
  readonly #app: FastifyInstance
  readonly #access: Access
  #take: ReturnType<FastifyInstance['createRateLimit']> | undefined

  /**
   * The plugin counts where varve says: its own stores go by the wall clock, which may jump, and wait for a Redis that
   * is slow.
   */
  constructor (app: FastifyInstance, access: Access) {
    this.#app = app
    this.#access = access
    // Whoever has no allowance is on the list of those who are not counted.
    const heldTo = ({ raw }: FastifyRequest): Allowance => access.allowanceOf(raw) ?? unlimited
    app.register(fastifyRateLimit, {
      global: false,
      store: storeIn(access.buckets),
      keyGenerator: request => this.subjectOf(request),
      allowList: request => heldTo(request) === unlimited,
      max: request => heldTo(request).burst,
      timeWindow: request => heldTo(request).burst / heldTo(request).perSecond * 1000
    })
  }

  /** Refuses who sends no key where one is required; where hits count too, takes one for any request. */
  async letIn (request: FastifyRequest): Promise<void> {
    const lacksKey = this.#access.lacksKey(request.raw)
    // Who has no key is held to what an address may ask for, or refusals would be had without end.
    if (lacksKey || this.#access.limitsHits) await this.#charge(request)
    if (lacksKey) {
      throw new Refusal(
        401,
        'web_framework_error',
        'expected a client key: Authorization: Bearer KEY, or X-Api-Key: KEY',
        ['www-authenticate', 'Bearer']
      )
    }
  }

  /** What a request costs its client; undefined where the client has no limit, or has been charged already. */
  tollOf (request: FastifyRequest): Toll | undefined {
    const allowance = this.#access.allowanceOf(request.raw)
    if (this.#access.limitsHits || allowance === undefined) return undefined
    return new Toll(async () => {
      await this.#charge(request)
    }, () => {
      this.#access.buckets.giveBack(this.subjectOf(request), allowance)
    })
  }

  /** Who takes turns with others, and is limited: whoever has a key, from wherever; else an address. */
  subjectOf (request: FastifyRequest): string {
    const name = this.#access.nameOf(request.raw)
    return name === undefined ? clientOf(request) ?? 'unknown' : `key ${name}`
  }

  async #charge (request: FastifyRequest): Promise<void> {
    // There is none before the app is ready.
    this.#take ??= this.#app.createRateLimit({})
    const taken = await this.#take(request)
    if (taken.isAllowed || !taken.isExceeded) return
    throw new Refusal(429, 'web_framework_error', 'too many requests', ['retry-after', String(taken.ttlInSeconds)])
  }
}

/** One of what a client may ask for, charged at most once for a request. */
export class Toll {
  readonly #charge: () => Promise<void>
  readonly #giveBack: () => void
  #charged: Promise<void> | undefined
  #isDue = false

  constructor (charge: () => Promise<void>, giveBack: () => void) {
    this.#charge = charge
    this.#giveBack = giveBack
  }

  /** Charges before an upstream is asked; throws where nothing is left. */
  readonly admit = async (): Promise<void> => {
    this.#isDue = true
    await this.payAhead()
  }

  /** Charges before that is known: reading a large body costs varve itself something, whatever comes of it. */
  async payAhead (): Promise<void> {
    await (this.#charged ??= this.#charge())
  }

  /** Refunds what was charged ahead, where no upstream had to be asked. */
  refund (): void {
    if (this.#charged !== undefined && !this.#isDue) this.#giveBack()
  }
}

// What the plugin takes for a store: it is told how many of `most` in a time a client has taken, and for how long it
// must wait.
function storeIn (buckets: Buckets): new() => FastifyRateLimitStore {
  return class Store implements FastifyRateLimitStore {
    incr (subject: string, told: Parameters<FastifyRateLimitStore['incr']>[1], windowMs: number, most: number): void {
      const taken = Promise.resolve(buckets.take(subject, { perSecond: most * 1000 / windowMs, burst: most }))
      taken.then(waitMs => {
        told(null, { current: waitMs > 0 ? most + 1 : most, ttl: waitMs })
      }, (error: Error) => {
        told(error)
      })
    }

    child (): this {
      return this
    }
  }
}
