import { type ResponsePosition } from '../api/position.js'
import { type RedisLink } from '../redis/link.js'
import { type RedisSubscriber } from '../redis/subscriber.js'
import { encodeWithChecksum } from './checksummed-json.js'
import { parseMessage } from './parse-replica-records.js'
import { type ReplicaMessage } from './replica-messages.js'

/** Best-effort messages between replicas; everything that must arrive is also read from Redis regularly. */
export class ReplicaChannel {
  readonly #link: RedisLink
  readonly #channel: string
  readonly #subscriber: RedisSubscriber
  #pendingHead: ReplicaMessage | undefined
  #isPublishing = false

  constructor (
    link: RedisLink,
    prefix: string,
    subscriberOf: (channel: string) => RedisSubscriber
  ) {
    this.#link = link
    this.#channel = `${prefix}news`
    this.#subscriber = subscriberOf(this.#channel)
  }

  /** Subscribes to the messages of other replicas, and retries until it can connect. */
  start (onMessage: (message: ReplicaMessage) => void): void {
    this.#subscriber.start(text => {
      const message = parseMessage(text)
      if (message !== undefined) onMessage(message)
    })
  }

  stop (): void {
    this.#subscriber.stop()
  }

  /** Notifies the other replicas that the shared records changed. */
  async notifyChange (chainId: number): Promise<void> {
    await this.#publish({ kind: 'changed', chainId })
  }

  /** Publishes the head, one message at a time; a newer head replaces one that waits. */
  publishHead (space: string, stamped: ResponsePosition): void {
    this.#pendingHead = { kind: 'head', space, stamped }
    if (!this.#isPublishing && this.#link.isUp) this.#publishHeads().catch(() => {})
  }

  async #publishHeads (): Promise<void> {
    this.#isPublishing = true
    try {
      while (this.#pendingHead !== undefined) {
        const message = this.#pendingHead
        this.#pendingHead = undefined
        await this.#publish(message)
      }
    } finally {
      this.#isPublishing = false
    }
  }

  async #publish (message: ReplicaMessage): Promise<void> {
    await this.#link.run('publish', async client => await client.publish(this.#channel, encodeWithChecksum(message)))
  }
}
