import t from 'tap'
import { connectionLimitFor } from '../../src/app/listen.js'
import { type Config, configSchema } from '../../src/config/schema.js'

const config = (connections: number | null): Config =>
  configSchema.parse({
    upstreams: [{ url: 'http://a', maxConcurrent: 100 }, { url: 'http://b', maxConcurrent: 200 }],
    limits: { connections }
  })

t.test('clients get the file descriptors that upstreams, Redis and the process do not need', async t => {
  t.same(connectionLimitFor(config(null), 1024), { limit: 1024 - 300 - 128, isReduced: false })
  t.same(
    connectionLimitFor(config(null), 1_048_576),
    { limit: 32_768, isReduced: false },
    'limited by memory, unless configured'
  )
  t.same(connectionLimitFor(config(100_000), 1_048_576), { limit: 100_000, isReduced: false })
  t.same(connectionLimitFor(config(500), 1024), { limit: 500, isReduced: false })
  t.same(connectionLimitFor(config(5000), 1024), { limit: 596, isReduced: true }, 'a reduced limit is reported')
  t.same(connectionLimitFor(config(null), 256), { limit: 16, isReduced: false }, 'a minimum is always served')
})
