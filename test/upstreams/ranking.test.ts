import t from 'tap'
import { type Candidate, mayHedge, rankUpstreams, type UpstreamRequirements } from '../../src/upstreams/ranking.js'
import { configSchema } from '../../src/config/schema.js'
import { startSandbox } from '#sandbox'
import { sendRequest } from '../support/client.js'
import { until } from '../support/until.js'
import { varveAt } from '../support/varve.js'

interface NamedCandidate extends Candidate {
  readonly name: string
}

const candidate = (
  name: string,
  window: [oldest: bigint, head: bigint] | undefined,
  { isHealthy = true, load = 0, isVerified = true, isFull = false, priority = 0, weight = 1 } = {}
): NamedCandidate => ({
  name,
  window: window && { oldest: window[0], head: window[1] },
  health: { isHealthy, load },
  isVerified,
  isFull,
  priority,
  weight
})

const anything: UpstreamRequirements = { version: undefined, minVersion: undefined, events: undefined }
const rankedNames = (candidates: NamedCandidate[], route: Partial<UpstreamRequirements>): string[] =>
  rankUpstreams(candidates, { ...anything, ...route }).map(({ name }) => name)

t.test('if no window covers the version, the nearest upstream ranks first and the others follow', async t => {
  const candidates = [candidate('lagging', [0n, 900n]), candidate('ahead', [500n, 1000n])]
  t.same(rankedNames(candidates, { version: 1001n }), ['ahead', 'lagging'])
  t.same(rankedNames([candidate('short', [500n, 1000n]), candidate('long', [100n, 1000n])], { version: 5n }), [
    'long',
    'short'
  ])
  t.same(rankedNames([], { version: 5n }), [])
})

t.test('upstreams rank by health, then verification, then load', async t => {
  const candidates = [
    candidate('unhealthy', [0n, 9n], { isHealthy: false }),
    candidate('busy', [0n, 9n], { load: 5 }),
    candidate('idle', [0n, 9n], { load: 1 })
  ]
  t.same(rankedNames(candidates, {}), ['idle', 'busy', 'unhealthy'])
  t.same(rankedNames([candidate('unverified', [0n, 9n], { isVerified: false }), ...candidates], {}), [
    'idle',
    'busy',
    'unverified',
    'unhealthy'
  ])
  t.same(rankedNames(candidates, { version: 5n }), ['idle', 'busy', 'unhealthy'])
})

t.test('a free slot ranks before a low load, but not before a window that reaches minVersion', async t => {
  const candidates = [candidate('full', [0n, 1000n], { isFull: true }), candidate('slow', [0n, 900n], { load: 99 })]
  t.same(rankedNames(candidates, { version: 5n }), ['slow', 'full'])
  t.same(rankedNames(candidates, { minVersion: 1000n }), ['full', 'slow'])
})

t.test('a higher priority number ranks last among those that can answer, whatever slots and load', async t => {
  const backup = candidate('backup', [0n, 9n], { priority: 1 })
  const main = candidate('main', [0n, 9n], { load: 100, isFull: true })
  t.same(rankedNames([backup, main], {}), ['main', 'backup'])
  t.same(rankedNames([backup, main], { version: 5n }), ['main', 'backup'])
  const unhealthy = candidate('main', [0n, 9n], { isHealthy: false })
  t.same(rankedNames([backup, unhealthy], {}), ['backup', 'main'], 'it is used while no lower number can answer')
  const pruned = candidate('main', [6n, 9n])
  t.same(rankedNames([pruned, backup], { version: 5n }), ['backup'])
  t.same(rankedNames([pruned, backup], { events: 'from' }), ['backup', 'main'], 'history comes before priority')
  const lagging = candidate('main', [0n, 8n])
  t.same(rankedNames([lagging, backup], { minVersion: 9n }), ['backup', 'main'], 'latest reads need the served head')
})

t.test('a backup gets no hedge of a slow read', async t => {
  const [main, backup] = [candidate('main', [0n, 9n]), candidate('backup', [0n, 9n], { priority: 1 })]
  t.notOk(mayHedge(backup, main, anything))
  t.ok(mayHedge(main, backup, anything))
  t.ok(mayHedge({ ...backup }, backup, anything))
})

t.test('load counts by weight, so reads in flight divide in its proportion', async t => {
  const inFlight = { light: 0, heavy: 0 }
  for (let read = 0; read < 400; read++) {
    const [first] = rankedNames([
      candidate('light', [0n, 9n], { load: 10 * (inFlight.light + 1) }),
      candidate('heavy', [0n, 9n], { load: 10 * (inFlight.heavy + 1), weight: 3 })
    ], {})
    inFlight[first as 'light' | 'heavy']++
  }
  t.same(inFlight, { light: 100, heavy: 300 })
})

t.test('a backup gets reads only while the first choice cannot answer', async t => {
  const [main, backup] = [await startSandbox({ blockMs: 0 }), await startSandbox({ blockMs: 0 })]
  t.teardown(async () => {
    await Promise.all([main.close(), backup.close()])
  })
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
