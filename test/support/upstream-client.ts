import { type Test } from 'tap'
import { UpstreamClient, type UpstreamClientOptions } from '../../src/upstreams/upstream-client.js'
import { type UpstreamRequest } from '../../src/upstreams/upstream-request.js'

/** Read that tests of upstreams send. */
export const testRequest: UpstreamRequest = {
  endpoint: 'account_modules',
  method: 'GET',
  target: '/v1/accounts/0x1/modules',
  headers: { accept: 'application/json' },
  isIdempotent: true
}

/** Creates the client of an upstream named `n`; `onFetched` gets each finished request with its status. */
export function upstreamClientAt (
  t: Test,
  url: string,
  change: Partial<UpstreamClientOptions> = {},
  onFetched: (line: string) => void = () => {}
): UpstreamClient {
  const client = new UpstreamClient({
    name: 'n',
    url,
    headers: {},
    timeoutMs: 2000,
    maxConcurrent: 4,
    caFile: null,
    maxBufferedBytes: 1000,
    now: () => performance.now(),
    ...change
  }, {
    fetched: (name, endpoint, status) => {
      onFetched(`${name} ${endpoint} ${status}`)
    }
  })
  t.teardown(async () => {
    await client.close()
  })
  return client
}
