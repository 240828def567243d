import { type Test } from 'tap'
import { type ChainVerification, Quarantine } from '../../src/chain/quarantine.js'
import { Upstream, type UpstreamOptions } from '../../src/upstreams/upstream.js'
import { type UpstreamRequest } from '../../src/upstreams/upstream-request.js'

/** Read that tests of upstreams send. */
export const testRequest: UpstreamRequest = {
  endpoint: 'account_modules',
  method: 'GET',
  target: '/v1/accounts/0x1/modules',
  headers: { accept: 'application/json' },
  isIdempotent: true
}

/** Verification of a chain that is always ours. */
export const sameChain: ChainVerification = {
  verifyChain: async () => undefined,
  isOffChain: () => false,
  isSameChain: async () => true,
  hasPeers: () => false
}

/** Creates an upstream named `n`; `onFetched` gets each finished request with its status. */
export function upstreamAt (
  t: Test,
  url: string,
  change: Partial<UpstreamOptions> = {},
  onFetched: (line: string) => void = () => {}
): Upstream {
  const now = (): number => performance.now()
  const upstream = new Upstream({
    name: 'n',
    url,
    headers: {},
    timeoutMs: 2000,
    maxConcurrent: 4,
    caFile: null,
    maxBufferedBytes: 1000,
    maxLagSeconds: Infinity,
    priority: 0,
    weight: 1,
    isCordoned: () => false,
    now,
    ...change
  }, {
    fetched: (name, endpoint, status) => {
      onFetched(`${name} ${endpoint} ${status}`)
    }
  }, own => new Quarantine(own, sameChain, change.now ?? now))
  t.teardown(async () => {
    await upstream.close()
  })
  return upstream
}
