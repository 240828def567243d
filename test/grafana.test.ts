import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { endpointLabels, type MetricDefinition, metricList } from '../src/metrics/definitions.js'
import { outcomeNames } from '../src/proxy/outcomes.js'
import {
  type Panel,
  dashboardFolder,
  dashboards,
  isAlert,
  queries,
  readRules,
  selectorsIn
} from './support/prometheus.js'

const root = join(import.meta.dirname, '..')
// Metrics that the library exports of every Node process.
const ofTheProcess: readonly MetricDefinition[] = [
  'process_resident_memory_bytes',
  'process_cpu_seconds_total',
  'nodejs_eventloop_lag_p99_seconds'
].map(name => ({ name, type: 'gauge', labels: {}, help: '', bounds: [] }))
const labelsOfRecords: Readonly<Record<string, MetricDefinition['labels']>> = {
  instance: {},
  instance_endpoint: { endpoint: endpointLabels },
  instance_outcome: { outcome: outcomeNames },
  instance_upstream: { upstream: 'upstreams' }
}
// Leaves out series recorded by job, which mix the chains of a job.
const recorded = readRules(readFileSync(join(root, 'config/prometheus-rules.yml'), 'utf8')).flatMap(
  (rule): MetricDefinition[] => {
    if (isAlert(rule)) return []
    const labels = labelsOfRecords[rule.record.split(':', 1).join('')]
    return labels === undefined ? [] : [{ name: rule.record, type: 'gauge', labels, help: '', bounds: [] }]
  }
)
const known = new Map([...metricList, ...ofTheProcess, ...recorded].map(row => [row.name, row]))
// Returns the row of a metric, also for the three series of a histogram.
const rowOf = (metric: string): MetricDefinition | undefined => {
  const histogram = known.get(metric.replace(/_(?:bucket|sum|count)$/, ''))
  return known.get(metric) ?? (histogram?.type === 'histogram' ? histogram : undefined)
}

t.test('the dashboards match what scripts/dashboards.js makes of grafana/source', async t => {
  const made = t.testdir()
  await promisify(execFile)(process.execPath, [join(root, 'scripts/dashboards.js'), made])
  t.same(readdirSync(dashboardFolder).sort(), readdirSync(made).sort())
  for (const file of readdirSync(made)) {
    t.equal(
      readFileSync(join(dashboardFolder, file), 'utf8'),
      readFileSync(join(made, file), 'utf8'),
      `${file}: run node scripts/dashboards.js`
    )
  }
})

t.test('four dashboards link to one another and pass the selected replicas on', async t => {
  const all = [...dashboards()]
  t.same(all.map(([name, { uid }]) => [name, uid]), [['helping', 'varve-helping'], ['history', 'varve-history'], [
    'upstreams',
    'varve-upstreams'
  ], ['varve', 'varve']])
  for (const [name, { title, tags, links, templating, annotations, schemaVersion }] of all) {
    t.match(title, /^varve: .+\?$/, name)
    t.same(tags, ['varve'])
    t.match(links, [{ tags: ['varve'], includeVars: true, keepTime: true }])
    t.same(templating.list.map(({ name }) => name), ['datasource', 'job', 'chain', 'instance', 'upstream', 'endpoint'])
    t.same(annotations.list.map(({ name }) => name), ['Reloads', 'Chain resets', 'Releases'])
    t.equal(schemaVersion, 41, 'the schema version of Grafana 12')
  }
})

t.test('Grafana gets the dashboards folder, a home dashboard, and the Prometheus that they query', async t => {
  const { services: { grafana } } = parse(readFileSync(join(root, 'docker-compose.yml'), 'utf8')) as {
    services: { grafana: { environment: Record<string, string>, volumes: string[] } }
  }
  const provisioned = (kind: string): string =>
    readFileSync(
      join(root, 'grafana/provisioning', kind, readdirSync(join(root, 'grafana/provisioning', kind))[0] ?? ''),
      'utf8'
    )
  const [, mounted] = grafana.volumes.find(volume => volume.startsWith('./grafana/dashboards:'))?.split(':') ?? []
  const { providers } = parse(provisioned('dashboards')) as { providers: Array<{ options: { path: string } }> }
  t.equal(providers[0]?.options.path, mounted)
  const home = grafana.environment['GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH'] ?? ''
  t.equal(home, `${mounted}/helping.json`)
  const { datasources } = parse(provisioned('datasources')) as { datasources: Array<{ uid: string }> }
  for (const [name, { templating }] of dashboards()) {
    t.match(templating.list[0], { query: 'prometheus', current: { value: datasources[0]?.uid } }, name)
  }
})

t.test('panels have unique ids and titles and a description, and do not overlap', async t => {
  for (const [name, { panels }] of dashboards()) {
    t.equal(new Set(panels.map(({ id }) => id)).size, panels.length, name)
    t.equal(new Set(panels.map(({ title }) => title)).size, panels.length, `${name}: titles are unique`)
    const taken = new Set<string>()
    for (const panel of panels) {
      const { gridPos: { x, y, w, h }, type, title } = panel
      t.ok(Number.isInteger(w) && x >= 0 && x + w <= 24, `${name}: ${title}`)
      for (let column = x; column < x + w; column++) {
        for (let line = y; line < y + h; line++) {
          t.notOk(taken.has(`${column},${line}`), `${name}: ${title} overlaps another`)
          taken.add(`${column},${line}`)
        }
      }
      if (type !== 'row') checkDescription(t, `${name}: ${title}`, panel)
    }
  }
})

t.test('every query uses listed metrics of the selected replicas, by existing labels and values', async t => {
  for (const { at, expr, legendFormat, panel } of queries()) {
    const selectors = selectorsIn(expr)
    t.equal(
      selectors.length,
      expr.match(/\b(?:varve|process|nodejs)_[a-z0-9_]+/g)?.length,
      `${at}: every metric has a selector`
    )
    for (const { metric, matches } of selectors) {
      const row = rowOf(metric)
      t.ok(row, `${at}: ${metric}`)
      const chosen = ['job', 'instance', ...['upstream', 'endpoint'].filter(label => row?.labels[label] !== undefined)]
      t.same(
        matches.slice(0, chosen.length),
        chosen.map(label => ({ label, operator: '=~', value: `$${label}` })),
        `${at}: ${metric} of what is chosen`
      )
      for (const { label, operator, value } of matches.slice(chosen.length)) {
        const values = row?.labels[label]
        t.ok(values, `${at}: ${metric} has ${label}`)
        const pattern = new RegExp(operator.endsWith('~') ? `^(?:${value})$` : `^${value}$`)
        if (Array.isArray(values)) t.ok(values.some(one => pattern.test(one)), `${at}: ${label} can be ${value}`)
      }
      if (/_(?:total|bucket|count|sum)$/.test(metric)) {
        t.match(expr, new RegExp(`(?:rate|increase)\\(${metric}\\{`), `${at}: a counter is shown as a rate`)
      }
    }
    // A position is NaN until it is known, and would make its rate over the whole range NaN.
    t.notMatch(expr, /deriv\(\w+\{[^}]*\}\[\$__range/, `${at}: a rate skips unknown positions`)
    const labels = new Set([
      'instance',
      'le',
      ...selectors.flatMap(({ metric }) => Object.keys(rowOf(metric)?.labels ?? {}))
    ])
    const named = [...expr.matchAll(/ by \(([^)]+)\)/g)].flatMap(([, names = '']) => names.split(', '))
    for (const label of named) t.ok(labels.has(label), `${at}: by ${label}`)
    // A legend names only labels that remain after the aggregation.
    for (const [, label = ''] of legendFormat.matchAll(/\{\{(\w+)\}\}/g)) {
      t.ok(named.length === 0 ? label === 'instance' : named.includes(label), `${at}: named by ${label}`)
    }
    t.match(
      expr,
      panel.type === 'stat' ? /^(?!.*\$__rate_interval)/ : /./,
      `${at}: a single number covers the time range shown`
    )
  }
})

t.test('the dashboards show every metric of varve', async t => {
  const drawn = new Set(queries().flatMap(({ expr }) => selectorsIn(expr).map(({ metric }) => rowOf(metric)?.name)))
  t.same(metricList.map(({ name }) => name).filter(name => !drawn.has(name)), [])
})

function checkDescription (t: Test, at: string, { description = '', type, fieldConfig }: Panel): void {
  t.match(description, /^[^.].{40,}\.$/, `${at} has a sentence`)
  t.notMatch(description, /\. [A-Z]/, `${at}: one sentence`)
  if (type !== 'stat') return
  t.ok(fieldConfig?.defaults.unit, `${at} has a unit`)
  t.ok(fieldConfig?.defaults.thresholds?.steps.length, `${at} has thresholds`)
}
