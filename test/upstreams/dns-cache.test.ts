import { type LookupAddress } from 'node:dns'
import t from 'tap'
import { DnsCache, DnsError } from '../../src/upstreams/dns.js'
import { until } from '../support/until.js'

const at = (...addresses: string[]): LookupAddress[] =>
  addresses.map(address => ({ address, family: address.includes(':') ? 6 : 4 }))

interface Query {
  resolve: (addresses: LookupAddress[]) => void
  fail: (code: string) => void
}

/** DNS cache whose resolver and clock the test controls. */
function inHand (timeoutMs = 100) {
  const clock = { ms: 0 }
  const queries: Query[] = []
  const reported: string[] = []
  const cache = new DnsCache({
    timeoutMs,
    now: () => clock.ms,
    onAnswer: addresses => reported.push(addresses.map(({ address }) => address).join()),
    resolve: async () =>
      await new Promise((resolve, reject) => {
        queries.push({
          resolve,
          fail: code => reject(Object.assign(new Error(code), { code }))
        })
      })
  })
  const found = async (hostname = 'node.example'): Promise<string> =>
    await cache.resolve(hostname).then(
      addresses => addresses.map(({ address }) => address).join(),
      (error: DnsError) => error.code
    )
  /** Resolves the name for the first time. */
  const known = async (): Promise<void> => {
    const first = found()
    queries[0]?.resolve(at('10.0.0.1'))
    await first
  }
  return { clock, queries, reported, cache, found, known }
}

t.test('concurrent look-ups of a name share one query, and its result is cached for a second', async t => {
  const { clock, queries, reported, found } = inHand()
  const all = Promise.all([found(), found(), found()])
  t.equal(queries.length, 1)
  queries[0]?.resolve(at('10.0.0.1'))
  t.same(await all, ['10.0.0.1', '10.0.0.1', '10.0.0.1'])
  clock.ms = 999
  t.same([await found(), queries.length], ['10.0.0.1', 1])
  clock.ms = 1000
  const next = found()
  t.equal(queries.length, 2)
  queries[1]?.resolve(at('10.0.0.2'))
  t.same([await next, reported], ['10.0.0.2', ['10.0.0.1', '10.0.0.2']])
})

t.test('addresses rotate within their family, and the family that the system put first stays first', async t => {
  const { queries, found } = inHand()
  const first = found()
  queries[0]?.resolve(at('10.0.0.1', '10.0.0.2', '::1', '10.0.0.3'))
  t.same([await first, await found(), await found(), await found()], [
    '10.0.0.1,10.0.0.2,10.0.0.3,::1',
    '10.0.0.2,10.0.0.3,10.0.0.1,::1',
    '10.0.0.3,10.0.0.1,10.0.0.2,::1',
    '10.0.0.1,10.0.0.2,10.0.0.3,::1'
  ])
})

t.test('a failing resolver leaves the last addresses valid for a day and is queried each time', async t => {
  const { clock, queries, found, known } = inHand()
  await known()
  for (const [nth, code] of ['EAI_AGAIN', 'EAI_FAIL'].entries()) {
    clock.ms = 86_399_000 + nth
    const stale = found()
    queries.at(-1)?.fail(code)
    t.same([await stale, queries.length], ['10.0.0.1', nth + 2])
  }
  clock.ms = 86_400_000
  const late = found()
  queries.at(-1)?.fail('EAI_AGAIN')
  t.equal(await late, 'EAI_AGAIN')
})

t.test('a result that the name does not exist removes its cached addresses', async t => {
  const { clock, queries, found, known } = inHand()
  await known()
  for (
    const respond of [
      (one?: Query) => one?.fail('ENOTFOUND'),
      (one?: Query) => one?.resolve([]),
      (one?: Query) => one?.fail('ENOTFOUND')
    ]
  ) {
    clock.ms += 2000
    const failed = found()
    respond(queries.at(-1))
    t.equal(await failed, 'ENOTFOUND')
  }
  const failing = found()
  queries.at(-1)?.fail('EAI_AGAIN')
  t.equal(await failing, 'EAI_AGAIN')
})

t.test('cached addresses are used once a query hangs for a fifth of the timeout; it still counts', async t => {
  const { clock, queries, found, known } = inHand(100)
  await known()
  clock.ms = 5000
  t.equal(await found(), '10.0.0.1')
  clock.ms = 9000
  t.equal(await found(), '10.0.0.1')
  t.equal(queries.length, 2, 'the one query still hangs')
  queries[1]?.resolve(at('10.0.0.2'))
  await until(async () => await found() === '10.0.0.2', 'the name resolves to 10.0.0.2')
  t.equal(queries.length, 2)
})

t.test('a hanging name blocks no other name, and the number of cached names is bounded', async t => {
  const { queries, found } = inHand(1000)
  const hanging = found('one.example')
  const other = found('two.example')
  queries[1]?.resolve(at('10.0.0.2'))
  t.equal(await other, '10.0.0.2')
  for (let nth = 0; nth < 256; nth++) {
    const more = found(`${nth}.example`)
    queries.at(-1)?.resolve(at('10.0.0.3'))
    await more
  }
  const before = queries.length
  const again = found('two.example')
  t.equal(queries.length, before + 1, 'the oldest was evicted')
  queries.at(-1)?.resolve(at('10.0.0.4'))
  t.equal(await again, '10.0.0.4')
  queries[0]?.resolve(at('10.0.0.1'))
  t.equal(await hanging, '10.0.0.1')
})
