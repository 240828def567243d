import { type RedisLink } from './link.js'
import { mastersOf } from './masters.js'

const everyMs = 10_000
const patientMs = 500

/** What of Redis's own settings an operator should mend: looked at when it is reached, and now and then after that. */
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
      this.look().catch(() => {})
    }, everyMs).unref()
  }

  stop (): void {
    clearInterval(this.#timer)
  }

  /** Looks at the settings of every server that is written to. */
  async look (): Promise<void> {
    const infos = await this.#link.ask(
      'probe',
      async client => await Promise.all(mastersOf(client).map(async server => await server.info('memory'))),
      patientMs
    )
    this.#warnings = [...new Set(infos.flatMap(warningsIn))]
  }
}

/** A server that does not say, as some hosted ones do not, is not blamed. */
function warningsIn (info: string): string[] {
  const valueOf = (name: string): string | undefined => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1]
  return [
    ...(valueOf('maxmemory') === '0' ? ['Redis has no maxmemory: it grows until its machine has no more'] : []),
    ...(valueOf('maxmemory_policy') === 'noeviction'
      ? ['Redis has maxmemory-policy noeviction: when it is full it refuses writes; set allkeys-lru']
      : [])
  ]
}
