import { randomUUID } from 'node:crypto'
import { type Redis } from 'ioredis'

// Whoever misses a message meanwhile finds what it said by looking.
const againAfterMs = 1000

/** Listens on a channel, on a connection of its own, since one that listens cannot ask; when it is lost, on another. */
export class RedisListener {
  readonly #connect: (attempt: number) => Redis
  readonly #channel: string
  readonly #onMessage: (text: string) => void
  #client: Redis | undefined
  #timer: NodeJS.Timeout | undefined
  #attempt = 0
  #isOver = false

  /**
   * `connect` makes a client that is not connected and never reconnects; of several servers the next one for each
   * attempt.
   */
  constructor (connect: (attempt: number) => Redis, channel: string, onMessage: (text: string) => void) {
    this.#connect = connect
    this.#channel = channel
    this.#onMessage = onMessage
  }

  start (): void {
    const client = this.#connect(this.#attempt++)
    this.#client = client
    client.on('error', () => {})
    client.on('ready', () => {
      this.#subscribe(client).catch(() => {
        client.disconnect()
      })
    })
    client.on('message', (_channel: string, text: string) => {
      this.#onMessage(text)
    })
    client.once('end', () => {
      if (!this.#isOver) {
        this.#timer = setTimeout(() => {
          this.start()
        }, againAfterMs).unref()
      }
    })
    client.connect().catch(() => {})
  }

  stop (): void {
    this.#isOver = true
    clearTimeout(this.#timer)
    this.#client?.disconnect()
  }

  // The library ends the process when what answers SUBSCRIBE is not Redis, so only what can echo is asked.
  async #subscribe (client: Redis): Promise<void> {
    const text = randomUUID()
    if (await client.echo(text) !== text) throw new Error('what answers is not Redis')
    await client.subscribe(this.#channel)
  }
}
