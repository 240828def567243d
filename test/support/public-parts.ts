import { pino } from 'pino'
import { Spellings } from '../../src/cache/spellings.js'
import { LocalBuckets } from '../../src/clients/buckets.js'
import { configSchema } from '../../src/config/schema.js'
import { Metrics } from '../../src/metrics/metrics.js'
import { type Parts } from '../../src/proxy/parts.js'
import { Stamper } from '../../src/proxy/stamp.js'
import { Access } from '../../src/http/access.js'
import { ClientConnections } from '../../src/http/client-connections.js'
import { Cors } from '../../src/http/cors.js'
import { Drain } from '../../src/http/drain.js'
import { type PublicParts } from '../../src/http/reply.js'

/**
 * What a public listener is made of around the parts of a test, as the default configuration has it but for what is
 * changed.
 */
export function publicPartsOf (parts: Parts, change: Partial<PublicParts> = {}): PublicParts {
  const config = configSchema.parse({})
  return {
    config,
    parts,
    known: new Spellings(1e6),
    access: new Access(config, new LocalBuckets(parts.now)),
    stamper: new Stamper(parts, 'revalidate', false, true),
    metrics: new Metrics(),
    log: pino({ level: 'silent' }),
    isSandbox: false,
    drain: new Drain(),
    cors: new Cors('*'),
    clients: new ClientConnections({ connections: Infinity, inFlightBytes: Infinity }, {
      cut: () => {},
      onFull: () => {}
    }),
    ...change
  }
}
