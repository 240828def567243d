import { join } from 'node:path'
import t from 'tap'
import { descriptorsOfProcess, placesFor } from '../../src/app/room.js'
import { type Config, configSchema } from '../../src/config/schema.js'

const config = (connections: number | null): Config =>
  configSchema.parse({
    upstreams: [{ url: 'http://a', maxConcurrent: 100 }, { url: 'http://b', maxConcurrent: 200 }],
    limits: { connections }
  })

t.test('clients may have the descriptors that nodes, Redis and the rest do not need', async t => {
  t.same(placesFor(config(null), 1024), { limit: 1024 - 300 - 128, isCut: false })
  t.same(
    placesFor(config(null), 1_048_576),
    { limit: 32_768, isCut: false },
    'and no more of them than memory has room for, unless that is wished'
  )
  t.same(placesFor(config(100_000), 1_048_576), { limit: 100_000, isCut: false })
  t.same(placesFor(config(500), 1024), { limit: 500, isCut: false })
  t.same(placesFor(config(5000), 1024), { limit: 596, isCut: true }, 'a wish that cannot be is told apart')
  t.same(placesFor(config(null), 256), { limit: 16, isCut: false }, 'somebody is served in any case')
})

t.test('how many there are is what the system tells, else what it mostly gives', async t => {
  t.ok(descriptorsOfProcess() > 0)
  const dir = t.testdir({
    limits: 'Limit  Soft Limit\nMax open files            20000                20001                files     \n',
    other: 'nothing of it'
  })
  t.equal(descriptorsOfProcess(join(dir, 'limits')), 20_000)
  t.equal(descriptorsOfProcess(join(dir, 'other')), 1024)
  t.equal(descriptorsOfProcess(join(dir, 'none')), 1024)
})
