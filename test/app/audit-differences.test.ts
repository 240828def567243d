import { pino } from 'pino'
import t from 'tap'
import { auditDifferenceListener, type PurgerParts } from '../../src/app/purger.js'
import { Space } from '../../src/chain/space.js'
import { type AuditDifference } from '../../src/proxy/audit.js'
import { contextAt, readOfTarget } from '../support/proxy-context.js'
import { until } from '../support/until.js'

const found: AuditDifference = {
  result: 'different',
  isObserved: false,
  reads: [readOfTarget('/v1/blocks/by_version/5')],
  space: Space.begin(4),
  part: 'body',
  cause: undefined,
  upstream: 'n',
  cached: Buffer.from('a'),
  fetched: Buffer.from('b')
}

t.test('audit differences are logged ten times a second at most, with the number of omitted ones', async t => {
  const { context: { invalidator } } = contextAt(t, 'http://127.0.0.1:1')
  const clock = { ms: 0 }
  const log: Array<Record<string, unknown>> = []
  const published: string[] = []
  const differs = auditDifferenceListener({
    invalidator,
    redisBackend: undefined,
    purgeOthers: body => {
      published.push(body.toString())
    },
    log: pino({}, { write: line => log.push(JSON.parse(line)) }),
    now: () => clock.ms
  })
  for (let nth = 0; nth < 25; nth++) differs(found)
  t.equal(log.length, 10)
  clock.ms += 1000
  differs({ ...found, result: 'rendering' })
  differs(found)
  t.match(log.slice(10), [{ suppressed: 15, level: 40 }, {
    level: 50,
    part: 'body',
    cause: undefined,
    upstream: 'n',
    target: '/v1/blocks/by_version/5'
  }])
  t.equal(log[11]?.['suppressed'], undefined)
  t.equal(invalidator.count, 27, 'all are invalidated')
  await new Promise(resolve => {
    setImmediate(resolve)
  })
  t.same([...new Set(published)], ['{"method":"GET","url":"/v1/blocks/by_version/5"}'])
  t.equal(published.length, 26, 'a rendering difference is not purged in other processes')
})

t.test('a failed invalidation of a shared tier is logged for a wrong entry, not for its rendering', async t => {
  const { context: { invalidator } } = contextAt(t, 'http://127.0.0.1:1')
  const log: Array<Record<string, unknown>> = []
  const reject = async (): Promise<never> => {
    throw new Error('out of memory')
  }
  const differs = auditDifferenceListener({
    invalidator,
    redisBackend: { purge: reject, store: { drop: reject } } as unknown as PurgerParts['redisBackend'],
    purgeOthers: () => {},
    log: pino({}, { write: line => log.push(JSON.parse(line)) }),
    now: () => 0
  })
  for (const result of ['rendering', 'different'] as const) differs({ ...found, result })
  await until(() => log.length === 3, 'the differences are logged')
  t.match(log.at(-1), { level: 50, reason: 'out of memory' })
})
