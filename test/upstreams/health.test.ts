import t from 'tap'
import { Health, LatencyWindow } from '../../src/upstreams/health.js'
import { readRetryAfterMs } from '../../src/upstreams/retry-after.js'

t.test('an upstream backs off for as long as it requests, at most an hour', async t => {
  const clock = { ms: 0 }
  const health = new Health(() => clock.ms)
  health.backOff(2000)
  clock.ms = 1999
  t.same([health.isBackingOff, health.isHealthy, health.isCircuitOpen], [true, false, false])
  clock.ms = 2000
  t.ok(health.isHealthy)
  health.backOff(5000)
  health.backOff(1000)
  clock.ms += 4000
  t.ok(health.isBackingOff, 'a shorter pause does not end a longer one')
  health.backOff(1e12)
  clock.ms += 3_600_000
  t.ok(health.isHealthy)
})

t.test('the load of an upstream is its recent latency times its requests in flight and one more', async t => {
  const health = new Health(() => 0)
  t.equal(health.load, 0)
  health.recordLatency(100)
  t.equal(health.load, 100)
  health.recordStart()
  t.equal(health.load, 200)
  health.recordEnd()
  for (let nth = 0; nth < 50; nth++) health.recordLatency(10)
  t.ok(Math.abs(health.load - 10) < 1, 'old latencies no longer count')
})

t.test('Retry-After is read as seconds or as a date; anything else means one second', async t => {
  const wall = Date.UTC(2026, 0, 1)
  const cases: Array<[text: string | undefined, ms: number]> = [
    ['0', 0],
    ['7', 7000],
    [' 7 ', 7000],
    ['Thu, 01 Jan 2026 00:00:30 GMT', 30_000],
    ['Thu, 01 Jan 2026 00:00:00 GMT', 0],
    ['Wed, 31 Dec 2025 00:00:00 GMT', 0],
    [undefined, 1000],
    ['', 1000],
    ['-1', 1000],
    ['1.5', 1000],
    ['soon', 1000],
    ['2027', 2_027_000],
    ['9999999999', 1000],
    ['Xyz, 99 Foo', 1000]
  ]
  for (const [text, ms] of cases) t.equal(readRetryAfterMs(text, undefined, wall), ms, String(text))
  t.equal(
    readRetryAfterMs('Thu, 01 Jan 2026 00:00:30 GMT', 'Thu, 01 Jan 2026 00:00:10 GMT', wall - 86_400_000),
    20_000,
    'by the upstream\'s own clock'
  )
})

t.test('the 95th percentile is known after 50 samples and covers the last 500', async t => {
  const latency = new LatencyWindow()
  for (let ms = 1; ms <= 49; ms++) latency.add(ms)
  t.equal(latency.p95, undefined)
  latency.add(50)
  t.equal(latency.p95, 48)
  for (let nth = 0; nth < 24; nth++) latency.add(1000)
  t.equal(latency.p95, 48, 'samples are sorted only now and then')
  latency.add(1000)
  t.equal(latency.p95, 1000)
  for (let nth = 0; nth < 475; nth++) latency.add(7)
  t.equal(latency.p95, 7, '25 of 500 are no more than one in twenty')
  latency.add(9)
  for (let nth = 0; nth < 25; nth++) latency.add(9)
  t.equal(latency.p95, 9)
})

t.test('a cancelled fetch counts as at least the time waited, so it never lowers the latency', async t => {
  const health = new Health(() => 0)
  for (let nth = 0; nth < 60; nth++) health.recordLatency(100, true)
  health.recordMinLatency(3, true)
  t.equal(health.latencyMs, 100)
  for (let nth = 0; nth < 20; nth++) health.recordMinLatency(400, true)
  t.equal(health.readLatency.p95, 400)
  for (let nth = 0; nth < 200; nth++) health.recordLatency(1)
  t.equal(health.readLatency.p95, 400, 'a probe is not a read')
})
