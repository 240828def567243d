import fc from 'fast-check'
import { Counter, Histogram, Registry } from 'prom-client'
import t from 'tap'
import { definitionOf } from '../../src/metrics/definitions.js'
import { requestSeries, upstreamSeries } from '../../src/metrics/request-series.js'
import { checkAsync, seedTitle } from '../support/properties.js'

const requests = definitionOf('varve_requests_total')
const seconds = definitionOf('varve_request_duration_seconds')
const bytes = definitionOf('varve_response_bytes_total')

/** Prints a registry as sorted lines, since the order of series is free. */
async function printed (registry: Registry): Promise<string[]> {
  return (await registry.metrics()).split('\n').filter(line => line !== '').sort()
}

t.test(`a scrape equals prom-client's own (${seedTitle})`, async () => {
  const response = fc.record({
    endpoint: fc.constantFrom('info', 'other'),
    outcome: fc.constantFrom('miss' as const, 'hit_memory' as const),
    status: fc.constantFrom(200, 304, 503),
    length: fc.nat(),
    tookSeconds: fc.oneof(fc.constantFrom(0, ...seconds.bounds), fc.double({ min: 0, max: 20, noNaN: true }))
  })
  await checkAsync(
    fc.asyncProperty(fc.array(response), fc.nat(3), async (responses, scrapes) => {
      const ours = new Registry()
      const series = requestSeries(ours)
      const theirs = new Registry()
      const counter = new Counter({
        name: requests.name,
        help: requests.help,
        labelNames: ['endpoint', 'outcome', 'status'],
        registers: [theirs]
      })
      const histogram = new Histogram({
        name: seconds.name,
        help: seconds.help,
        labelNames: ['endpoint', 'outcome'],
        buckets: [...seconds.bounds],
        registers: [theirs]
      })
      const byteCounter = new Counter({
        name: bytes.name,
        help: bytes.help,
        labelNames: ['endpoint'],
        registers: [theirs]
      })
      for (const { endpoint, outcome, status, tookSeconds, length } of responses) {
        series.add(endpoint, outcome, status, tookSeconds, length)
        byteCounter.inc({ endpoint }, length)
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

t.test(`a scrape of upstream requests equals prom-client's own (${seedTitle})`, async () => {
  const response = fc.record({
    upstream: fc.constantFrom('a', 'b'),
    endpoint: fc.constantFrom('info', 'other'),
    status: fc.constantFrom('200', '503', 'timeout'),
    length: fc.nat(),
    // Sums of these are exact in any order.
    tookSeconds: fc.nat(20_480).map(parts => parts / 1024)
  })
  await checkAsync(fc.asyncProperty(fc.array(response), async responses => {
    const ours = new Registry()
    const series = upstreamSeries(ours)
    const theirs = new Registry()
    const counts = definitionOf('varve_upstream_requests_total')
    const durations = definitionOf('varve_upstream_request_duration_seconds')
    const counter = new Counter({ ...counts, labelNames: ['upstream', 'endpoint', 'status'], registers: [theirs] })
    const histogram = new Histogram({
      name: durations.name,
      help: durations.help,
      labelNames: ['upstream'],
      buckets: [...durations.bounds],
      registers: [theirs]
    })
    const byteCounter = new Counter({
      ...definitionOf('varve_upstream_response_bytes_total'),
      labelNames: ['upstream'],
      registers: [theirs]
    })
    for (const { upstream, endpoint, status, tookSeconds, length } of responses) {
      series.add(upstream, endpoint, status, tookSeconds, length)
      byteCounter.inc({ upstream }, length)
      counter.inc({ upstream, endpoint, status })
      histogram.observe({ upstream }, tookSeconds)
    }
    return (await printed(ours)).join('\n') === (await printed(theirs)).join('\n')
  }))
})
