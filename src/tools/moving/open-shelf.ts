import { storePrefix } from '../../cache/shared-store.js'
import { type Flags, loadConfig } from '../../config/load.js'
import { type Config, isShared } from '../../config/schema.js'
import { Patience } from './patience.js'
import { type Shelf } from './shelf.js'
import { RedisLink } from '../../redis/link.js'
import { clientFor } from '../../redis/place.js'
import { Control } from '../../cluster/control.js'
import { PurgeLog } from '../../cluster/purge-log.js'
import { SharedKeys } from '../../cluster/shared-keys.js'
import { type Io, UsageError } from '../../app/io.js'
import { placeOf } from '../../app/sharing.js'

/** The Redis of a configuration, opened for a command that is no replica. */
export interface OpenShelf extends Shelf {
  readonly link: RedisLink
}

/** What a command is told of the Redis that it works on. */
export interface ShelfFlags extends Pick<Flags, 'config' | 'redis' | 'upstream'> {
  readonly rate?: string
}

// Nobody waits for an answer; what takes longer is asked again.
const timeoutMs = 2000
const mostPerSecond = 1_000_000

/** Loads the configuration of a command that is nothing without a Redis. */
export function configOf ({ config: file, redis, upstream }: ShelfFlags, io: Io): Config {
  const { config } = loadConfig(io.environment, { config: file, redis, upstream })
  if (!isShared(config)) {
    throw new UsageError(
      'no Redis is named: give --redis URL, or --config FILE with the configuration that varve runs with'
    )
  }
  return config
}

/** How many entries a second are allowed. */
export function rateOf ({ rate }: ShelfFlags): number | undefined {
  if (rate === undefined) return undefined
  if (!/^[1-9][0-9]{0,6}$/.test(rate) || Number(rate) > mostPerSecond) {
    throw new UsageError(`--rate expects a whole number from 1 to ${mostPerSecond}, got ${rate}`)
  }
  return Number(rate)
}

/** Connects to Redis; fails where it does not answer. */
export async function openShelf (
  config: Config,
  perSecond: number | undefined,
  signal: AbortSignal
): Promise<OpenShelf> {
  const { keyPrefix, ttlSeconds } = config.cache.redis
  const now = (): number => performance.now()
  const prefix = storePrefix(keyPrefix)
  const link = new RedisLink(clientFor(placeOf(config.cache.redis, now)), {
    timeoutMs,
    probeKey: `${prefix}probe`,
    now,
    // Whoever asks is told of what fails.
    tally: { redisAsked: () => {}, redisFailed: () => {} },
    onUp: () => {},
    onDown: () => {}
  })
  await link.start()
  if (!link.isUp) {
    link.stop()
    throw new Error(`Redis ${link.fault}: ${link.lastError}`)
  }
  const keys = new SharedKeys(link, prefix, ttlSeconds)
  return {
    link,
    prefix,
    now,
    wallClockMs: () => performance.timeOrigin + performance.now(),
    control: new Control(keys, () => []),
    purges: new PurgeLog(keys),
    patience: new Patience({ link, signal, now, perSecond })
  }
}
