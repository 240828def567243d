import t from 'tap'
import { Health, Latency } from '../../src/upstreams/health.js'

t.test('the 95th percentile is known after 50 samples and covers the last 500', async t => {
  const latency = new Latency()
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
