import fc from 'fast-check'
import { Counter, Histogram, Registry } from 'prom-client'
import t from 'tap'
import { RequestSeries } from '../../src/metrics/request-series.js'
import { checkAsync, seedTitle } from '../support/properties.js'

const requests = { name: 'requests_total', help: 'Requests.' }
const seconds = { name: 'request_seconds', help: 'Times.' }
const bounds = [0.001, 0.01, 0.1]

/** Prints a registry as sorted lines, since the order of series is free. */
async function printed (registry: Registry): Promise<string[]> {
  return (await registry.metrics()).split('\n').filter(line => line !== '').sort()
}

t.test(`a scrape equals prom-client's own (${seedTitle})`, async () => {
  const response = fc.record({
    endpoint: fc.constantFrom('info', 'other'),
    outcome: fc.constantFrom('miss', 'hit_memory'),
    status: fc.constantFrom(200, 304, 503),
    tookSeconds: fc.oneof(fc.constantFrom(0, ...bounds), fc.double({ min: 0, max: 1, noNaN: true }))
  })
  await checkAsync(
    fc.asyncProperty(fc.array(response), fc.nat(3), async (responses, scrapes) => {
      const ours = new Registry()
      const series = new RequestSeries(ours, { requests, seconds, bounds })
      const theirs = new Registry()
      const counter = new Counter({ ...requests, labelNames: ['endpoint', 'outcome', 'status'], registers: [theirs] })
      const histogram = new Histogram({
        ...seconds,
        labelNames: ['endpoint', 'outcome'],
        buckets: [...bounds],
        registers: [theirs]
      })
      for (const { endpoint, outcome, status, tookSeconds } of responses) {
        series.add(endpoint, outcome, status, tookSeconds)
        counter.inc({ endpoint, outcome, status })
        histogram.observe({ endpoint, outcome }, tookSeconds)
      }
      // Scrapes must not change the next scrape.
      for (let scrape = 0; scrape < scrapes; scrape++) await printed(ours)
      return (await printed(ours)).join('\n') === (await printed(theirs)).join('\n')
    }),
    200
  )
})
