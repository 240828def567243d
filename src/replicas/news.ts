import { randomUUID } from 'node:crypto'
import { type StampedPosition } from '../ledger/position.js'
import { type RedisLink } from '../redis/link.js'
import { type RedisClient } from '../redis/place.js'
import { seal, unseal } from './seal.js'

/** What replicas tell each other at once: that the control key has changed, or where the chain stands. */
export type Message =
  | { readonly kind: 'look', readonly chainId: number }
  | { readonly kind: 'head', readonly generation: number, readonly stamped: StampedPosition }

/** Messages between replicas, as best effort: whatever must not be lost is also read from Redis regularly. */
export class News {
  readonly #link: RedisLink
  readonly #listener: RedisClient
  readonly #channel: string
  #head: Message | undefined
  #isTelling = false

  /** The listener is a connection of its own, since one that listens cannot ask. */
  constructor (link: RedisLink, listener: RedisClient, prefix: string, onMessage: (message: Message) => void) {
    this.#link = link
    this.#listener = listener
    this.#channel = `${prefix}news`
    listener.on('error', () => {})
    listener.on('ready', () => { this.#subscribe().catch(() => {}) })
    listener.on('message', (_channel: string, text: string) => {
      try {
        onMessage(unseal(text) as Message)
      } catch {
        // No word of ours, or none that this version knows.
      }
    })
  }

  /** Begins to listen; who cannot connect goes on trying. */
  start (): void {
    this.#listener.connect().catch(() => {})
  }

  stop (): void {
    this.#listener.disconnect()
  }

  /** Tells the other replicas to look at the control key. */
  async tell (chainId: number): Promise<void> {
    await this.#publish({ kind: 'look', chainId })
  }

  /** Tells where the chain stands: one message at a time, and of those that wait the newest alone. */
  tellHead (generation: number, stamped: StampedPosition): void {
    this.#head = { kind: 'head', generation, stamped }
    if (!this.#isTelling && this.#link.isUp) this.#tellHeads().catch(() => {})
  }

  // The library ends the process when what answers SUBSCRIBE is not Redis, so only what can echo is asked.
  async #subscribe (): Promise<void> {
    const text = randomUUID()
    if (await this.#listener.echo(text) === text) await this.#listener.subscribe(this.#channel)
  }

  async #tellHeads (): Promise<void> {
    this.#isTelling = true
    try {
      while (this.#head !== undefined) {
        const message = this.#head
        this.#head = undefined
        await this.#publish(message)
      }
    } finally {
      this.#isTelling = false
    }
  }

  async #publish (message: Message): Promise<void> {
    await this.#link.ask('publish', async client => await client.publish(this.#channel, seal(message)))
  }
}
