import t from 'tap'
import { Health } from '../../src/upstreams/health.js'
import { Latency } from '../../src/upstreams/latency.js'

t.test('what one of twenty takes longer than is known from fifty times on, and is that of the last five hundred', async t => {
  const latency = new Latency()
  for (let ms = 1; ms <= 49; ms++) latency.add(ms)
  t.equal(latency.p95, undefined)
  latency.add(50)
  t.equal(latency.p95, 48)
  for (let nth = 0; nth < 24; nth++) latency.add(1000)
  t.equal(latency.p95, 48, 'sorted now and then only')
  latency.add(1000)
  t.equal(latency.p95, 1000)
  for (let nth = 0; nth < 475; nth++) latency.add(7)
  t.equal(latency.p95, 7, 'twenty-five of five hundred are no more than one of twenty')
  latency.add(9)
  for (let nth = 0; nth < 25; nth++) latency.add(9)
  t.equal(latency.p95, 9)
})

t.test('of what was not waited for to the end it is known that it takes longer, so that nothing seems quicker for it', async t => {
  const health = new Health(() => 0)
  for (let nth = 0; nth < 60; nth++) health.recordLatency(100, true)
  health.recordMinLatency(3, true)
  t.equal(health.latencyMs, 100)
  for (let nth = 0; nth < 20; nth++) health.recordMinLatency(400, true)
  t.equal(health.readLatency.p95, 400)
  for (let nth = 0; nth < 200; nth++) health.recordLatency(1)
  t.equal(health.readLatency.p95, 400, 'what a node takes to say where it stands is no read')
})
