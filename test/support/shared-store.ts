import { type Test } from 'tap'
import { tagOf } from '../../src/cache/entry.js'
import { SharedStore, type SharedOptions } from '../../src/cache/shared-store.js'
import { type Stored } from '../../src/cache/stored.js'
import { RedisLink } from '../../src/redis/link.js'
import { clientFor } from '../../src/redis/place.js'

/** A shared store with nothing before or behind it, and what it told of its work. */
export interface TestStore extends SharedStore {
  readonly link: RedisLink
  readonly counts: { written: number, corrupt: number, failed: number }
}

/** Opens the shared store at a Redis as a replica would, with its link up. */
export async function storeAt (t: Test, url: string, change: Partial<SharedOptions> = {}): Promise<TestStore> {
  const counts = { written: 0, corrupt: 0, failed: 0 }
  const now = (): number => performance.now()
  const place = {
    url,
    cluster: [],
    sentinel: { name: null, hosts: [], password: null },
    username: null,
    password: null,
    tls: false,
    ca: undefined
  }
  const link = new RedisLink(clientFor(place), {
    timeoutMs: 1000,
    probeKey: 'varve:1:probe',
    now,
    tally: {
      redisAsked: () => {},
      redisFailed: () => {
        counts.failed++
      }
    },
    onUp: () => {
      store.resume()
    },
    onDown: () => {}
  })
  const store: SharedStore = new SharedStore(link, {
    keyPrefix: 'varve',
    ttlSeconds: 1000,
    tally: {
      wroteShared: () => {
        counts.written++
      },
      foundCorrupt: () => {
        counts.corrupt++
      }
    },
    now,
    isAgreed: () => true,
    ...change
  })
  t.teardown(() => {
    store.stop()
    link.stop()
  })
  await link.start()
  return Object.assign(store, { link, counts })
}

/** An answer as a replica would share it. */
export function storedOf (key: string, body: string | Buffer, change: Partial<Stored> = {}): Stored {
  const bytes = Buffer.from(body)
  const head = { version: 1000n, timestampUsec: 1_000_000n, epoch: 2n, blockHeight: 100n }
  const stamped = { position: { chainId: 4, head, oldest: { version: 10n, blockHeight: 1n } }, family: 'x-aptos-' }
  return {
    key,
    status: 200,
    contentType: 'application/json',
    body: bytes,
    etag: tagOf('application/json', bytes),
    release: 'aaaa',
    lowestVersion: undefined,
    cursor: undefined,
    gasUsed: undefined,
    range: undefined,
    stamped,
    ...change
  }
}
