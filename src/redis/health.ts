import { Cluster, type Redis } from 'ioredis'
import { type RedisLink } from './link.js'
import { type RedisClient } from './connection-options.js'

const checkEveryMs = 10_000
const checkTimeoutMs = 500

/** Checks Redis settings that an operator should fix: on connecting, then every 10 s. */
export class RedisHealth {
  readonly #link: RedisLink
  #timer: NodeJS.Timeout | undefined
  #warnings: readonly string[] = []

  constructor (link: RedisLink) {
    this.#link = link
  }

  get warnings (): readonly string[] {
    return this.#warnings
  }

  start (): void {
    this.#timer = setInterval(() => {
      this.check().catch(() => {})
    }, checkEveryMs).unref()
  }

  stop (): void {
    clearInterval(this.#timer)
  }

  /** Reads the settings of every master. */
  async check (): Promise<void> {
    const infos = await this.#link.run(
      'probe',
      async client => await Promise.all(mastersOf(client).map(async server => await server.info('memory'))),
      checkTimeoutMs
    )
    this.#warnings = [...new Set(infos.flatMap(warningsIn))]
  }
}

/** Lists the servers that take writes; each has its own settings. */
function mastersOf (client: RedisClient): readonly Redis[] {
  return client instanceof Cluster ? client.nodes('master') : [client]
}

/** Hosted servers may hide settings; an absent one is no warning. */
function warningsIn (info: string): string[] {
  const valueOf = (name: string): string | undefined => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1]
  return [
    ...(valueOf('maxmemory') === '0'
      ? ['Redis has no maxmemory: set it, or Redis grows until its machine is out of memory']
      : []),
    ...(valueOf('maxmemory_policy') === 'noeviction'
      ? ['Redis has maxmemory-policy noeviction: a full Redis rejects writes; set allkeys-lru']
      : [])
  ]
}
