import t from 'tap'
import { EventBus } from '../../src/app/event-bus.js'
import { monitorUpstream } from '../../src/app/monitored-upstream.js'
import { namedUpstreamsOf } from '../../src/app/upstream-lifecycle.js'
import { referenceReadersOf, ChainVerifier } from '../../src/chain/chain-verifier.js'
import { Generations } from '../../src/chain/generations.js'
import { Tracker } from '../../src/chain/tracker.js'
import { configSchema } from '../../src/config/schema.js'
import { Cordons } from '../../src/upstreams/upstream.js'
import { InFlightBytes } from '../../src/upstreams/in-flight-bytes.js'
import { UpstreamSoftwareReleases } from '../../src/upstreams/upstream-software-releases.js'
import { UpstreamPool } from '../../src/upstreams/upstream-pool.js'
import { stamps, startStubUpstream } from '../support/stub-upstream.js'

t.test('a release is published when it changes, and recorded with every poll', async t => {
  const clock = { ms: 0 }
  const index = { release: 'a' }
  const stub = await startStubUpstream(t, (_request, response) => {
    response.writeHead(404).end()
  }, (_request, response) => {
    response.writeHead(200, stamps()).end(JSON.stringify({ git_hash: index.release }))
  })
  const now = (): number => clock.ms
  const events = new EventBus()
  const tracker = new Tracker(undefined, now, events.chain)
  const pool = new UpstreamPool({ onOldest: () => {}, onAllQuarantined: async () => {} })
  const generations = new Generations({
    tracker,
    registry: undefined,
    ...referenceReadersOf(pool),
    now,
    events: events.chain
  })
  const chainVerifier = new ChainVerifier({ pool, generations, tracker, waitForEarlier: async () => {}, now })
  const releases = new UpstreamSoftwareReleases(now, () => true)
  const config = configSchema.parse({ upstreams: [{ name: 'n', url: stub.url }] })
  const published: string[] = []
  events.releaseChanged.subscribe(({ upstream, release }) => {
    published.push(release)
    upstream.client.setRelease(release)
  })
  const inFlight = new InFlightBytes(Infinity, now)
  const metrics = { fetched: () => {} }
  const options = {
    now,
    tracker,
    pool,
    generations,
    chainVerifier,
    releases,
    metrics,
    events,
    inFlight,
    cordons: new Cordons()
  }
  for (const named of namedUpstreamsOf(config, undefined)) {
    const { upstream, poll } = monitorUpstream(named, config, options)
    t.teardown(async () => {
      poll.stop()
      await upstream.client.close()
    })
    pool.replaceUpstreams([upstream], undefined)
    await poll.poll()
    clock.ms = 50_000
    await poll.poll()
    t.same(published, ['a'])
    index.release = 'b'
    clock.ms = 100_000
    await poll.poll()
    t.same(published, ['a', 'b'])
    index.release = 'a'
    await poll.poll()
    t.same([published, releases.own], [['a', 'b', 'a'], ['a', 'b']], 'seen 50 s before, so both run')
  }
})
