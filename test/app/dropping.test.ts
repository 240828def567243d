import { pino } from 'pino'
import t from 'tap'
import { dropperOf } from '../../src/app/dropping.js'
import { type Sharing } from '../../src/app/sharing.js'
import { type Difference } from '../../src/proxy/auditor.js'
import { partsAt, readOf } from '../support/parts.js'
import { until } from '../support/until.js'

t.test('however much an audit finds, ten lines a second tell of it, and the next one says how much was left out', async t => {
  const { parts: { forgetting } } = partsAt(t, 'http://127.0.0.1:1')
  const clock = { ms: 0 }
  const log: Array<Record<string, unknown>> = []
  const told: string[] = []
  const differs = dropperOf({
    forgetting,
    sharing: () => undefined,
    onDropped: purge => {
      told.push(purge.toString())
    },
    log: pino({}, { write: line => log.push(JSON.parse(line)) }),
    now: () => clock.ms
  })
  const found: Difference = {
    result: 'different',
    reads: [readOf('/v1/blocks/by_version/5')],
    chain: { id: 4, generation: 1 },
    where: 'body',
    node: 'n',
    kept: Buffer.from('a'),
    said: Buffer.from('b')
  }
  for (let nth = 0; nth < 25; nth++) differs(found)
  t.equal(log.length, 10)
  clock.ms += 1000
  differs({ ...found, result: 'rendering' })
  differs(found)
  t.match(log.slice(10), [{ unsaid: 15, level: 40 }, {
    level: 50,
    where: 'body',
    node: 'n',
    target: '/v1/blocks/by_version/5'
  }])
  t.equal(log[11]?.['unsaid'], undefined)
  t.equal(forgetting.times, 27, 'all of it is forgotten')
  await new Promise(resolve => {
    setImmediate(resolve)
  })
  t.same([...new Set(told)], ['{"method":"GET","url":"/v1/blocks/by_version/5"}'])
  t.equal(told.length, 26, 'what is only rendered otherwise is nobody else\'s affair')
})

t.test('what Redis cannot be told of is said, where it is wrong and not only rendered otherwise', async t => {
  const { parts: { forgetting } } = partsAt(t, 'http://127.0.0.1:1')
  const log: Array<Record<string, unknown>> = []
  const refuse = async (): Promise<never> => {
    throw new Error('no more room')
  }
  const differs = dropperOf({
    forgetting,
    sharing: () => ({ purge: refuse, store: { forget: refuse } }) as unknown as Sharing,
    onDropped: undefined,
    log: pino({}, { write: line => log.push(JSON.parse(line)) }),
    now: () => 0
  })
  const found: Difference = {
    result: 'rendering',
    reads: [readOf('/v1/blocks/by_version/5')],
    chain: { id: 4, generation: 1 },
    where: 'body',
    node: 'n',
    kept: Buffer.from('a'),
    said: Buffer.from('b')
  }
  for (const result of ['rendering', 'different'] as const) differs({ ...found, result })
  await until(() => log.length === 3, 'it is said')
  t.match(log.at(-1), { level: 50, reason: 'no more room' })
})
