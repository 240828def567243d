import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import t from 'tap'
import { SummedMetrics, type MetricFamilies } from '../../src/metrics/summed-metrics.js'

/** Creates the metrics of a process with counters and gauges. */
async function processWith (reads: number, version: number, age: number): Promise<MetricFamilies> {
  const registry = new Registry()
  const at = { registers: [registry] }
  new Counter({ ...at, name: 'reads_total', help: 'Reads.', labelNames: ['kind'] }).inc({ kind: 'a' }, reads)
  new Histogram({ ...at, name: 'seconds', help: 'Time.', buckets: [1, 2] }).observe(reads)
  new Gauge({ ...at, name: 'version', help: 'Version.', aggregator: 'max' }).set(version)
  new Gauge({ ...at, name: 'age', help: 'Age.', aggregator: 'max' }).set(age)
  new Gauge({ ...at, name: 'entries', help: 'Entries.', labelNames: ['tier'] }).set({ tier: 'memory' }, 10)
  return await registry.getMetricsAsJSON() as unknown as MetricFamilies
}

const valueOf = (text: string, series: string): string | undefined =>
  text.split('\n').find(line => line.startsWith(`${series} `))?.slice(series.length + 1)

t.test('counters of all processes are added up, and gauges are merged by their own rule', async t => {
  const summed = new SummedMetrics()
  summed.update({}, await processWith(1, 100, 3))
  summed.update({}, await processWith(2, 90, 2))
  const text = await summed.text([])
  t.equal(valueOf(text, 'reads_total{kind="a"}'), '3')
  t.equal(valueOf(text, 'seconds_bucket{le="1"}'), '1')
  t.equal(valueOf(text, 'seconds_bucket{le="2"}'), '2')
  t.equal(valueOf(text, 'seconds_sum'), '3')
  t.equal(valueOf(text, 'version'), '100')
  t.equal(valueOf(text, 'entries{tier="memory"}'), '20')
})

t.test('a value that one process does not know yet hides no value of another', async t => {
  const summed = new SummedMetrics()
  summed.update({}, await processWith(1, 100, 3))
  summed.update({}, await processWith(1, NaN, Infinity))
  const text = await summed.text([])
  t.equal(valueOf(text, 'version'), '100')
  t.equal(valueOf(text, 'age'), '3')
  const alone = new SummedMetrics()
  alone.update({}, await processWith(1, NaN, Infinity))
  t.equal(valueOf(await alone.text([]), 'version'), 'Nan', 'NaN if no process knows it')
})

t.test('counters of an ended process stay in the sum, its gauges do not', async t => {
  const summed = new SummedMetrics()
  const [one, two] = [{}, {}]
  summed.update(one, await processWith(1, 100, 3))
  summed.update(two, await processWith(2, 90, 2))
  summed.remove(one)
  summed.remove(two)
  summed.remove({})
  summed.update(one, await processWith(100, 1, 1))
  summed.update({}, await processWith(4, 95, 1))
  const text = await summed.text(await processWith(8, 1, 0))
  t.equal(valueOf(text, 'reads_total{kind="a"}'), '15')
  t.equal(valueOf(text, 'seconds_count'), '4')
  t.equal(valueOf(text, 'version'), '95')
  t.equal(valueOf(text, 'entries{tier="memory"}'), '20')
})
