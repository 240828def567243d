import { pino } from 'pino'
import { ParsedRequestCache } from '../../src/cache/parsed-request-cache.js'
import { LocalBuckets } from '../../src/clients/token-buckets.js'
import { configSchema } from '../../src/config/schema.js'
import { Metrics } from '../../src/metrics/metrics.js'
import { type ProxyContext } from '../../src/proxy/proxy-context.js'
import { ResponseBuilder } from '../../src/proxy/response-builder.js'
import { ClientPolicies } from '../../src/http/client-policies.js'
import { ConnectionLimiter } from '../../src/http/connection-limiter.js'
import { Cors } from '../../src/http/cors.js'
import { DrainFlag } from '../../src/http/drain-flag.js'
import { RequestIds } from '../../src/http/request-ids.js'
import { type ListenerContext } from '../../src/http/send-response.js'

/** Returns the parts of a public listener around those of a test, with the default configuration and changes. */
export function listenerContextOf (proxy: ProxyContext, change: Partial<ListenerContext> = {}): ListenerContext {
  const config = configSchema.parse({})
  return {
    config,
    proxy,
    parsedRequests: new ParsedRequestCache(1e6),
    access: new ClientPolicies(config, new LocalBuckets(proxy.now)),
    responseBuilder: new ResponseBuilder(proxy, 'revalidate', false, true),
    metrics: new Metrics(),
    log: pino({ level: 'silent' }),
    requestIds: new RequestIds(),
    isSandbox: false,
    drain: new DrainFlag(),
    cors: new Cors('*'),
    clients: new ConnectionLimiter({ connections: Infinity, inFlight: proxy.inFlight }, {
      cut: () => {},
      onFull: () => {}
    }),
    ...change
  }
}
