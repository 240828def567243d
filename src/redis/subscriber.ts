import { randomUUID } from 'node:crypto'
import { type Redis } from 'ioredis'

// Pauses before a reconnect: a message missed meanwhile costs nothing, because subscribers also read the state that it
// announces.
const reconnectDelayMs = 1000

/** Subscribes to a channel on its own connection, as Redis requires, and reconnects after a loss. */
export class RedisSubscriber {
  readonly #connect: (attempt: number) => Redis
  readonly #channel: string
  #client: Redis | undefined
  #timer: NodeJS.Timeout | undefined
  #attempt = 0
  #isStopped = false
  #isSubscribed = false

  /**
   * `connect` creates a client that is not connected and never reconnects; `attempt` selects one of several servers.
   */
  constructor (connect: (attempt: number) => Redis, channel: string) {
    this.#connect = connect
    this.#channel = channel
  }

  /** True while messages arrive. */
  get isSubscribed (): boolean {
    return this.#isSubscribed
  }

  start (onMessage: (text: string) => void): void {
    const client = this.#connect(this.#attempt++)
    this.#client = client
    client.on('error', () => {})
    client.on('ready', () => this.#subscribe(client).catch(() => client.disconnect()))
    client.on('message', (_channel: string, text: string) => onMessage(text))
    client.once('end', () => {
      this.#isSubscribed = false
      if (!this.#isStopped) this.#timer = setTimeout(() => this.start(onMessage), reconnectDelayMs).unref()
    })
    client.connect().catch(() => {})
  }

  stop (): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
    this.#client?.disconnect()
  }

  // Sends ECHO first, because ioredis ends the process if the response to SUBSCRIBE is not from Redis.
  async #subscribe (client: Redis): Promise<void> {
    const text = randomUUID()
    if (await client.echo(text) !== text) throw new Error('the server is not Redis')
    await client.subscribe(this.#channel)
    this.#isSubscribed = true
  }
}
