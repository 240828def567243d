import { type RedisLink } from '../redis/link.js'
import { type RedisSubscriber } from '../redis/subscriber.js'
import { type SentMessage } from './messages.js'
import { isListOf, isObject, isSpaceName, isStamped, decodeWithChecksum, encodeWithChecksum } from './parse-records.js'
import { type Carrier } from './peers.js'
import { RedisRecords } from './records.js'

/** Best-effort messages between hosts over Redis; what must arrive is also in Redis's records, which hosts read. */
export class RedisCarrier implements Carrier {
  readonly hostRecords = undefined
  readonly redisRecords: RedisRecords
  readonly #link: RedisLink
  readonly #channel: string
  readonly #subscriber: RedisSubscriber
  // Messages that wait to be sent; a newer message replaces an older one of the same subject.
  readonly #waiting = new Map<string, SentMessage>()
  #isPublishing = false
  #onMessage: (message: SentMessage) => void = () => {}

  constructor (
    link: RedisLink,
    prefix: string,
    ttlSeconds: number,
    subscriberOf: (channel: string) => RedisSubscriber
  ) {
    this.redisRecords = new RedisRecords(link, prefix, ttlSeconds)
    this.#link = link
    this.#channel = `${prefix}news`
    this.#subscriber = subscriberOf(this.#channel)
  }

  get hearsHosts (): boolean {
    return this.#subscriber.isSubscribed
  }

  subscribe (onMessage: (message: SentMessage) => void): void {
    this.#onMessage = onMessage
  }

  start (): void {
    this.#subscriber.start(text => {
      const message = parseMessage(text)
      if (message !== undefined) this.#onMessage(message)
    })
  }

  stop (): void {
    this.#subscriber.stop()
  }

  /**
   * Publishes messages of the kinds that concern other hosts, one at a time; a newer message replaces one that waits.
   */
  publish (message: SentMessage): void {
    const { kind } = message
    if (!['changed', 'head', 'heads', 'fetched', 'digests'].includes(kind)) return
    // Removes configuration and release: hosts may differ in both, and check the form of each message on arrival.
    this.#waiting.set(kind === 'fetched' ? message.lease : kind === 'heads' ? message.id : kind, {
      ...message,
      configuration: undefined,
      release: undefined
    })
    if (!this.#isPublishing && this.#link.isUp) this.#publishWaiting().catch(() => {})
  }

  async #publishWaiting (): Promise<void> {
    this.#isPublishing = true
    try {
      for (const [name, message] of this.#waiting) {
        this.#waiting.delete(name)
        const text = encodeWithChecksum(message)
        await this.#link.run('publish', async client => await client.publish(this.#channel, text))
      }
    } finally {
      this.#isPublishing = false
    }
  }
}

/** Parses a sealed message. */
function parseMessage (text: string): SentMessage | undefined {
  const value = decodeWithChecksum(text)
  if (!isObject(value)) return undefined
  const { kind, space, stamped, lease, isStored, source } = value
  if (kind === 'changed') return { kind }
  if (!isSpaceName(space)) return undefined
  if (kind === 'fetched' && typeof lease === 'string' && typeof isStored === 'boolean') {
    return { kind, space, lease, isStored }
  }
  if (kind === 'digests' && typeof source === 'string') return { kind, space, source }
  if (kind === 'heads') return parseSharedHead(value, space)
  return kind === 'head' && isStamped(stamped) ? { kind, space, stamped } : undefined
}

function parseSharedHead (value: Record<string, unknown>, space: string): SentMessage | undefined {
  const { id, nth, beatAtMs, stamped, promised, members, hasLeft } = value
  return typeof id === 'string' && typeof nth === 'number' && typeof beatAtMs === 'number' &&
      (stamped === undefined || isStamped(stamped)) && (promised === undefined || typeof promised === 'bigint') &&
      isListOf(members, member => typeof member === 'string') && typeof hasLeft === 'boolean'
    ? { kind: 'heads', space, id, nth, beatAtMs, stamped, promised, members, hasLeft }
    : undefined
}
