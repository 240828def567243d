import { Cluster } from 'ioredis'
import { type RedisLink } from './link.js'
import { withTimeout } from '../with-timeout.js'
import { createClient, type RedisClient, type RedisConnectionOptions } from './create-client.js'

const checkEveryMs = 10_000
const checkTimeoutMs = 500

/** Checks Redis settings that an operator should fix: on connecting, then every 10 s. */
export class RedisSettingsCheck {
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
    this.#timer = setInterval(() => this.check().catch(() => {}), checkEveryMs).unref()
  }

  stop (): void {
    clearInterval(this.#timer)
  }

  /** Reads the settings of every master. */
  async check (): Promise<void> {
    const infos = await this.#link.run('probe', async client => await infosOf(client, 'memory'), checkTimeoutMs)
    this.#warnings = warningsIn(infos)
  }
}

/** Facts about a Redis that an operator checks before the first start. */
export interface RedisFacts {
  readonly version: string | undefined
  readonly policy: string | undefined
  readonly warnings: readonly string[]
}

const inspectTimeoutMs = 5000

/** Connects once, authenticates, and reads version and settings of every master; throws the first error. */
export async function inspectRedis (options: RedisConnectionOptions): Promise<RedisFacts> {
  const client = createClient(options)
  const failed = new Promise<never>((_resolve, reject) => client.on('error', reject))
  const inspected = client.connect().then(async () => await infosOf(client))
  // Handles both rejections: the slower of the two promises may fail after the result is known.
  inspected.catch(() => {})
  failed.catch(() => {})
  try {
    const infos = await withTimeout(inspectTimeoutMs, Promise.race([inspected, failed]))
    if (infos === undefined) throw new Error(`no response in ${inspectTimeoutMs / 1000} s`)
    return {
      version: unique(infos, 'redis_version'),
      policy: unique(infos, 'maxmemory_policy'),
      warnings: warningsIn(infos)
    }
  } finally {
    client.disconnect()
  }
}

function unique (infos: readonly string[], name: string): string | undefined {
  const values = [...new Set(infos.flatMap(info => valueIn(info, name) ?? []))]
  return values.length === 0 ? undefined : values.join(', ')
}

function valueIn (info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1]
}

/** Reads the information of each server that takes writes; each has its own settings. */
async function infosOf (client: RedisClient, ...sections: ['memory'] | []): Promise<string[]> {
  const masters = client instanceof Cluster ? client.nodes('master') : [client]
  return await Promise.all(masters.map(async server => await server.info(...sections)))
}

/** Hosted servers may hide settings; an absent one is no warning. */
function warningsIn (infos: readonly string[]): string[] {
  const isSet = (name: string, value: string): boolean => infos.some(info => valueIn(info, name) === value)
  return [
    ...(isSet('maxmemory', '0')
      ? ['Redis has no maxmemory: set it, or Redis grows until its machine is out of memory']
      : []),
    ...(isSet('maxmemory_policy', 'noeviction')
      ? ['Redis has maxmemory-policy noeviction: a full Redis rejects writes; set allkeys-lru']
      : [])
  ]
}
