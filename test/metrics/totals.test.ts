import t from 'tap'
import { sumTotals, summaryOf } from '../../src/metrics/recent-counts.js'

const bounds = [0.001, 0.01, 0.1]

t.test('totals of several processes add up by endpoint, client and bucket', async t => {
  const one = {
    endpoints: { info: { requests: 3, saved: 1 } },
    clients: { app: { requests: 2, bytes: 100 } },
    savings: 0.5,
    hits: [1, 0, 0, 0],
    misses: []
  }
  const other = {
    endpoints: { info: { requests: 2, saved: 2 }, view: { requests: 1, saved: 0 } },
    clients: { app: { requests: 1, bytes: 20 }, page: { requests: 0, bytes: 0 } },
    savings: 1,
    hits: [1, 2, 0, 0],
    misses: [0, 0, 0, 1]
  }
  t.same(sumTotals([one, other]), {
    endpoints: { info: { requests: 5, saved: 3 }, view: { requests: 1, saved: 0 } },
    clients: { app: { requests: 3, bytes: 120 }, page: { requests: 0, bytes: 0 } },
    savings: 1.5,
    hits: [2, 2, 0, 0],
    misses: [0, 0, 0, 1]
  })
})

t.test('a summary has the reads saved, the busiest five endpoints, and no quantiles of nothing', async t => {
  const endpoints = Object.fromEntries([0, 4, 9, 1, 7, 3, 2].map((requests, at) => [`e${at}`, { requests, saved: 1 }]))
  const { readsSaved, hitMs, missMs, endpoints: top } = summaryOf(
    { endpoints, clients: {}, savings: 0, hits: [], misses: [0, 0] },
    bounds
  )
  t.same({ readsSaved, hitMs, missMs }, { readsSaved: 7, hitMs: undefined, missMs: undefined })
  t.same(top.map(({ endpoint, requests }) => [endpoint, requests]), [['e2', 9], ['e4', 7], ['e1', 4], ['e5', 3], [
    'e6',
    2
  ]])
})

t.test('quantiles are interpolated inside a bucket; above all bounds they are the last bound', async t => {
  const summary = summaryOf(
    { endpoints: {}, clients: {}, savings: 0, hits: [100, 0, 0, 0], misses: [0, 50, 0, 50] },
    bounds
  )
  t.same(summary.hitMs, { p50: 0.5, p99: 0.99 })
  t.same(summary.missMs, { p50: 10, p99: 100 })
})
