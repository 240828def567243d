import { type Test } from 'tap'
import { computeEtag } from '../../src/cache/entry.js'
import { RedisTier, type RedisTierOptions } from '../../src/cache/redis-tier.js'
import { type StoredEntry } from '../../src/cache/entry-codec.js'
import { type StoreSpace } from '../../src/cache/tier.js'
import { InFlightBytes } from '../../src/upstreams/in-flight-bytes.js'
import { RedisLink } from '../../src/redis/link.js'
import { createClient } from '../../src/redis/create-client.js'

/** A Redis tier on its own, with a record of its work. */
export interface TestRedisTier extends RedisTier {
  readonly link: RedisLink
  readonly counts: { written: number, corrupt: number, failed: number }
}

/** Makes a link to a Redis, which the test starts and which stops with it. */
export function redisLinkTo (t: Test, url: string, redisFailed: (operation: string) => void): RedisLink {
  const client = createClient({
    url,
    cluster: [],
    sentinel: { name: null, hosts: [], password: null },
    username: null,
    password: null,
    tls: false,
    ca: undefined
  })
  const metrics = { redisCalled: () => {}, redisFailed }
  const link = new RedisLink(client, {
    timeoutMs: 1000,
    probeKey: 'varve:1:probe',
    now: () => performance.now(),
    metrics
  })
  t.teardown(() => {
    link.stop()
  })
  return link
}

/** Opens a Redis tier as a replica would, with its link up. */
export async function openRedisTier (
  t: Test,
  url: string,
  change: Partial<RedisTierOptions> = {}
): Promise<TestRedisTier> {
  const counts = { written: 0, corrupt: 0, failed: 0 }
  const now = (): number => performance.now()
  const link = redisLinkTo(t, url, () => {
    counts.failed++
  })
  const store = new RedisTier(link, {
    keyPrefix: 'varve',
    ttlSeconds: 1000,
    maxEntryBytes: 100_000_000,
    metrics: {
      wrote: () => {
        counts.written++
      },
      foundCorrupt: () => {
        counts.corrupt++
      }
    },
    inFlight: new InFlightBytes(Infinity, now),
    now,
    space: () => space,
    ...change
  })
  t.teardown(() => {
    store.close()
  })
  await link.start({
    onUp: () => {
      store.resumeWrites()
    },
    onDown: () => {}
  })
  return Object.assign(store, { link, counts })
}

/** Space that the entries of tests are in. */
export const space: StoreSpace = { chainId: 4, name: '4.1' }

/** Returns an entry as a replica would store it. */
export function storedEntryOf (key: string, body: string | Buffer, change: Partial<StoredEntry> = {}): StoredEntry {
  const bytes = Buffer.from(body)
  const head = { version: 1000n, timestampUsec: 1_000_000n, epoch: 2n, blockHeight: 100n }
  const stamped = { position: { chainId: 4, head, oldest: { version: 10n, blockHeight: 1n } }, family: 'x-aptos-' }
  return {
    key,
    status: 200,
    contentType: 'application/json',
    body: bytes,
    etag: computeEtag('application/json', bytes),
    release: 'aaaa',
    lowestVersion: undefined,
    cursor: undefined,
    gasUsed: undefined,
    validity: undefined,
    stamped,
    ...change
  }
}
