import { type StampedPosition } from '../api/position.js'
import { type RedisLink } from '../redis/link.js'
import { type RedisListener } from '../redis/listener.js'
import { seal } from './seal.js'
import { messageIn } from './shapes.js'
import { type Message } from '../chain/words.js'

/** Messages between replicas, as best effort: whatever must not be lost is also read from Redis regularly. */
export class News {
  readonly #link: RedisLink
  readonly #channel: string
  readonly #listener: RedisListener
  #head: Message | undefined
  #isTelling = false

  constructor (
    link: RedisLink,
    prefix: string,
    listenTo: (channel: string, onMessage: (text: string) => void) => RedisListener,
    onMessage: (message: Message) => void
  ) {
    this.#link = link
    this.#channel = `${prefix}news`
    this.#listener = listenTo(this.#channel, text => {
      const message = messageIn(text)
      if (message !== undefined) onMessage(message)
    })
  }

  /** Begins to listen; who cannot connect goes on trying. */
  start (): void {
    this.#listener.start()
  }

  stop (): void {
    this.#listener.stop()
  }

  /** Tells the other replicas to look at what is shared. */
  async tell (chainId: number): Promise<void> {
    await this.#publish({ kind: 'look', chainId })
  }

  /** Tells where the chain stands: one message at a time, and of those that wait the newest alone. */
  tellHead (generation: number, stamped: StampedPosition): void {
    this.#head = { kind: 'head', generation, stamped }
    if (!this.#isTelling && this.#link.isUp) this.#tellHeads().catch(() => {})
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
