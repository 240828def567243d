import { Gauge, Registry } from 'prom-client'
import t from 'tap'
import { SummedMetrics, type MetricFamilies } from '../../src/metrics/summed-metrics.js'

/** Creates the metrics of a process with two gauges of which the largest counts. */
async function processWith (version: number, age: number): Promise<MetricFamilies> {
  const registry = new Registry()
  for (const [name, value] of [['version', version], ['age', age]] as const) {
    new Gauge({ registers: [registry], name, help: 'It.', aggregator: 'max' }).set(value)
  }
  return await registry.getMetricsAsJSON() as unknown as MetricFamilies
}

t.test('the sizes of the disk tier, which all processes read, count once', async t => {
  const processOf = async (entries: number): Promise<MetricFamilies> => {
    const registry = new Registry()
    const gauge = new Gauge({ registers: [registry], name: 'entries', help: 'It.', labelNames: ['tier'] })
    gauge.set({ tier: 'memory' }, 3)
    gauge.set({ tier: 'disk' }, entries)
    return await registry.getMetricsAsJSON() as unknown as MetricFamilies
  }
  const summed = new SummedMetrics()
  for (const entries of [5, 7, 7]) summed.update({}, await processOf(entries))
  const text = await summed.text([])
  t.match(text, /^entries\{tier="memory"\} 9$/m)
  t.match(text, /^entries\{tier="disk"\} 7$/m)
})

t.test('a value that one process does not know yet hides no value of another', async t => {
  const [summed, alone] = [new SummedMetrics(), new SummedMetrics()]
  summed.update({}, await processWith(100, 3))
  summed.update({}, await processWith(NaN, Infinity))
  t.match(await summed.text([]), /^version 100\n[^]*^age 3$/m)
  alone.update({}, await processWith(NaN, Infinity))
  t.match(await alone.text([]), /^version Nan$/m, 'NaN if no process knows it')
})
