import t from 'tap'
import { readPosition } from '../../src/api/position.js'
import { chooseBest, type FlawedResponse } from '../../src/upstreams/upstream-pool.js'
import { type Flaw } from '../../src/upstreams/upstream-failure.js'
import { rankUpstreams } from '../../src/upstreams/ranking.js'
import { type Upstream } from '../../src/upstreams/upstream.js'
import { configSchema } from '../../src/config/schema.js'
import { sendRequest } from '../support/client.js'
import { startSandboxNode } from '../support/replicas.js'
import { stamps } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { varveAt } from '../support/varve.js'

/** Returns an upstream as ranking sees it; its window is `oldest-head`. */
function candidate (name: string, window: string, load = 0, weight = 1): Upstream {
  const [oldest = '', head = ''] = window.split('-')
  return {
    name,
    limiter: { isFull: false },
    window: { oldest: BigInt(oldest), head: BigInt(head) },
    health: { isHealthy: true, load },
    isVerified: true,
    isCordoned: false,
    settings: { priority: 0, weight }
  } as unknown as Upstream
}

t.test('load counts by weight, so reads in flight divide in its proportion', async t => {
  const inFlight = { light: 0, heavy: 0 }
  for (let read = 0; read < 400; read++) {
    const [first] = rankUpstreams([
      candidate('light', '0-9', 10 * (inFlight.light + 1)),
      candidate('heavy', '0-9', 10 * (inFlight.heavy + 1), 3)
    ], { version: undefined, minVersion: undefined, events: undefined })
    inFlight[first?.name as 'light' | 'heavy']++
  }
  t.same(inFlight, { light: 100, heavy: 300 })
})

t.test('of flawed responses the one that says most about the read is used', async t => {
  const flawed = (flaw: Flaw, status: number, body: string, head = 1000, oldest = 0): FlawedResponse => {
    const headers = stamps({ 'x-aptos-ledger-version': String(head) })
    return {
      flaw,
      upstream: candidate('n', `${oldest}-${head}`),
      response: {
        status,
        headers,
        body: Buffer.from(body),
        rest: undefined,
        isFramed: true,
        stamped: readPosition(headers),
        release: undefined
      }
    }
  }
  const [down, limited] = [flawed('unhealthy', 503, 'down'), flawed('backing_off', 429, 'limited')]
  const gone = (body: string, oldest: number): FlawedResponse => flawed('pruned', 410, body, 1000, oldest)
  const cases: Array<[why: string, FlawedResponse[], 'from' | 'last' | undefined, string | undefined]> = [
    ['none', [], undefined, undefined],
    ['a 429 says more than a 5xx', [down, limited, flawed('unhealthy', 500, 'x')], undefined, 'limited'],
    ['the first of equals', [down, flawed('unhealthy', 500, 'x')], undefined, 'down'],
    ['the read before the upstream', [limited, gone('gone', 0)], undefined, 'gone'],
    ['the highest head', [flawed('lagging', 200, 'a', 900), flawed('lagging', 200, 'b', 950)], undefined, 'b'],
    ['a late page before a fault', [down, flawed('lagging', 200, 'late')], undefined, 'late'],
    [
      'the fullest page of the last events',
      [flawed('partial', 200, '[]', 1000, 30), flawed('partial', 200, '[1]', 1000, 20), gone('gone', 10)],
      'last',
      '[1]'
    ],
    [
      'the longest history from a number on',
      [flawed('partial', 200, '[1]', 1000, 20), gone('gone', 10)],
      'from',
      'gone'
    ],
    ['the longest of two', [gone('short', 20), gone('long', 10)], 'from', 'long'],
    ['its page', [gone('short', 20), flawed('partial', 200, '[1]', 1000, 10)], 'from', '[1]'],
    ['a late page before a gap', [flawed('lagging', 200, '[1,2]', 900), gone('gone', 0)], 'from', '[1,2]'],
    ['a longer late page', [flawed('lagging', 200, '[1,2]', 900), flawed('partial', 200, '[2]')], 'last', '[1,2]'],
    ['not a late empty one', [flawed('lagging', 200, '[]', 900), flawed('partial', 200, '[ ]')], 'from', '[ ]'],
    [
      'the end of a stream from the one that lags less',
      [flawed('partial_lagging', 200, '[]', 900, 10), flawed('partial', 200, '[ ]', 1000, 20)],
      'from',
      '[ ]'
    ],
    [
      'events before no events',
      [flawed('lagging', 200, '[1]', 800), flawed('partial_lagging', 200, '[]', 900)],
      'last',
      '[1]'
    ]
  ]
  for (const [why, all, events, body] of cases) {
    t.equal(chooseBest(all, { events })?.response.body.toString(), body, why)
  }
})

t.test('a backup gets reads only while the first choice cannot answer', async t => {
  const [main, backup] = [await startSandboxNode(t), await startSandboxNode(t)]
  const { upstreams } = configSchema.parse({
    upstreams: [{ name: 'backup', url: backup.url, priority: 1 }, { name: 'main', url: main.url }]
  })
  const varve = await varveAt(t, main.url, { upstreams, hedge: { share: 0 } })
  const read = async (version: number): Promise<number> =>
    (await varve.get(`/v1/accounts/0x1/modules?ledger_version=${version}`)).status
  await until(async () => {
    const { body } = await sendRequest(varve.adminUrl, '/status.json')
    return (JSON.parse(body) as { upstreams: Array<{ version?: string }> }).upstreams.every(({ version }) =>
      version !== undefined
    )
  }, 'both windows are known')
  const countAt = (node: typeof main): number => node.requests.countFor('account_modules')
  const versions = Array.from({ length: 20 }, (_, at) => 19_000 + at)
  t.same(await Promise.all(versions.map(read)), versions.map(() => 200))
  t.same([countAt(main), countAt(backup)], [20, 0])
  await main.close()
  t.equal(await read(19_500), 200)
  t.equal(countAt(backup), 1, 'the backup takes over')
})
