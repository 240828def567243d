import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { metricList, type MetricDefinition } from '../src/metrics/definitions.js'
import { Metrics } from '../src/metrics/metrics.js'
import { type AlertRule, isAlert, readRules } from './support/prometheus.js'
import { varveAtSandbox } from './support/varve.js'

const root = join(import.meta.dirname, '..')
const text = (...path: string[]): string => readFileSync(join(root, ...path), 'utf8')
const rules = readRules(text('config/prometheus-rules.yml'))
const alerts: AlertRule[] = rules.filter(isAlert)
const records = rules.flatMap(rule => isAlert(rule) ? [] : [rule.record])
// Address at which this tree is published.
const { homepage } = JSON.parse(text('package.json')) as { homepage: string }
const runbooks = text('docs/runbooks.md')
// Anchors in lower case, as forges make them of headings.
const anchors = [...runbooks.matchAll(/^## (\S+)$/gm)].map(([, title = '']) => title.toLowerCase())

t.test('each alert has a severity, a wait, a summary, a description and a runbook link', async t => {
  t.ok(alerts.length > 30)
  for (
    const { alert, for: wait, labels, annotations: { summary, description, runbook_url: runbook, ...more } } of alerts
  ) {
    t.match(alert, /^Varve[A-Z][A-Za-z]+$/)
    t.match(wait, /^\d+[mh]$/, alert)
    t.match(labels, { severity: /^(?:page|ticket)$/ }, alert)
    t.match(summary, /^\S.{10,100}[^.]$/, `${alert} has a summary of one line`)
    t.match(description, /^.{40,300}\.$/, `${alert} has a description that is a sentence`)
    t.equal(runbook, `${homepage}docs/runbooks.md#${alert.toLowerCase()}`)
    t.match(runbook, /^https:/)
    t.same(more, {})
  }
})

t.test('each alert has a complete runbook section, and each section has its alert', async t => {
  t.same(anchors, alerts.map(({ alert }) => alert.toLowerCase()), 'in the same order')
  for (const { alert, labels } of alerts) {
    const [, section = ''] = runbooks.split(`## ${alert}\n`)
    const [own = ''] = section.split('\n## ')
    t.ok(own.startsWith(`\n*${labels['severity']}.* `), alert)
    t.match(own, /\*\*Look\*\*.*\n(?:.*\n)*.*\*\*(?:Do|do)\*\*|\*\*Look\*\* and \*\*do\*\*/, alert)
    t.match(own, /\*\*No action\*\*/, alert)
  }
})

t.test('the runbooks quote existing log lines, metrics and settings of varve', async t => {
  const src = join(root, 'src')
  const source = (readdirSync(src, { recursive: true }) as string[]).filter(file => file.endsWith('.ts')).map(file =>
    readFileSync(join(src, file), 'utf8')
  ).join('\n')
  const quoted = [...runbooks.matchAll(/`"msg":"([^"`]+)"`/g)].map(([, line = '']) => line)
  t.ok(quoted.length > 15)
  for (const line of quoted) t.ok(source.includes(`'${line}'`), line)
  for (const [, message = ''] of runbooks.matchAll(/`\/readyz`: \*([^*]+)\*/g)) t.ok(source.includes(message), message)
  for (const [, key = ''] of runbooks.matchAll(/`((?:limits|cache|head|log|audit)\.[a-zA-Z.]+)/g)) {
    t.ok(key.split('.').every(part => text('config/varve.yaml').includes(`${part}:`)), key)
  }
})

t.test('the example of an Alertmanager pages once where all upstreams of a varve are down', async t => {
  interface Matched {
    readonly source_matchers: string[]
    readonly target_matchers: string[]
    readonly equal: string[]
  }
  const { route, inhibit_rules: inhibits, receivers } = parse(text('config/alertmanager.yml')) as {
    route: { receiver: string, group_by: string[], routes: Array<{ matchers: string[], receiver: string }> },
    inhibit_rules: Matched[],
    receivers: Array<{ name: string }>
  }
  const known = new Set(alerts.map(({ alert }) => alert))
  const namesIn = (matchers: string[]): string[] =>
    matchers.flatMap(matcher => /^alertname =~? "?([^"]*)"?$/.exec(matcher)?.[1]?.split('|') ?? [])
  for (const { source_matchers: source, target_matchers: target, equal } of inhibits) {
    for (const name of [...namesIn(source), ...namesIn(target)]) t.ok(known.has(name), name)
    t.same(equal, ['job', 'instance'])
  }
  // Alerts that fire while every upstream of a varve that has served is down.
  const firing = ['VarveNoUpstreamUp', 'VarveLevelRed', 'VarveReadsFailing', 'VarveUpstreamDown', 'VarvePositionStale']
  const inhibited = new Set(
    inhibits.filter(({ source_matchers: source }) => namesIn(source).some(name => firing.includes(name)))
      .flatMap(({ target_matchers: target }) => namesIn(target))
  )
  t.same(firing.filter(name => !inhibited.has(name)), ['VarveNoUpstreamUp'])
  t.same(route.group_by, ['job', 'severity'], 'one notification of all replicas')
  const names = receivers.map(({ name }) => name)
  for (const { receiver } of [route, ...route.routes]) t.ok(names.includes(receiver), receiver)
  t.match(route.routes.map(({ matchers }) => matchers), [[/^alertname = VarveChainReset$/, /^job =~ /], [
    'severity = page'
  ]])
})

t.test('recording rules are named by level, metric and operation', async t => {
  t.equal(new Set(records).size, records.length)
  for (const name of records) {
    t.match(
      name,
      /^(?:job|instance)(?:_(?:endpoint|outcome|upstream))?:varve_[a-z_]+:(?:rate5m|ratio_rate5m|p99_rate5m|min_deriv30m|ratio|seconds)$/
    )
  }
})

t.test('rules and runbooks name only metrics, labels and label values that varve has', async t => {
  const series = new Map<string, MetricDefinition['labels']>([
    ...metricList.map(({ name, labels, bounds }) => [name, { ...labels, le: bounds.map(String) }] as const),
    ...records.map(record => [record, {}] as const),
    ['up', {}]
  ])
  for (const { name } of await new Metrics().registry.getMetricsAsJSON()) if (!series.has(name)) series.set(name, {})
  const labels = ['job', 'instance', 'le', ...metricList.flatMap(row => Object.keys(row.labels))]
  const queries = [
    ...rules.map(({ expr }) => expr),
    ...[...runbooks.matchAll(/`([^`\n]*(?:varve_|nodejs_|process_)[^`\n]*)`/g)].map(([, query = '']) => query)
  ]
  t.ok(queries.length > 80)
  for (const query of queries) {
    for (
      const [, name = '', matchers = ''] of query.matchAll(
        /\b([a-z_]+:varve_[a-z0-9_:]+|up(?=\{)|(?:varve|nodejs|process)_[a-z0-9_]+)(?:\{([^}]*)\})?/g
      )
    ) {
      const known = series.get(name) ?? series.get(name.replace(/_(?:bucket|count|sum)$/, ''))
      t.ok(known, `${query}: ${name}`)
      for (const [, label = '', operator = '', wanted = ''] of matchers.matchAll(/([a-z_]+)(=~|!~|=|!=)"([^"]*)"/g)) {
        const values = label === 'job' ? ['varve'] : known?.[label] ?? []
        // Label values that an operator chooses cannot be checked.
        if (typeof values === 'string') continue
        for (const one of operator.endsWith('~') ? wanted.split('|') : [wanted]) {
          t.ok(values.some(value => new RegExp(`^(?:${one})$`).test(value)), `${name}: ${label} ${one}`)
        }
      }
    }
    for (const [, list = ''] of query.matchAll(/\b(?:by|without|on|ignoring|group_left) \(([^)]*)\)/g)) {
      for (const label of list.split(', ').filter(Boolean)) t.ok(labels.includes(label), `${query}: ${label}`)
    }
  }
})

t.test('metrics show no Redis that is not configured, and no rejected reload before the first', async t => {
  const { varve } = await varveAtSandbox(t)
  t.equal(await varve.metric('varve_redis_up'), undefined)
  t.equal(await varve.metric('varve_config_last_reload_successful'), 1)
  varve.metrics.process.reloaded('rejected')
  t.equal(await varve.metric('varve_config_last_reload_successful'), 0)
  varve.metrics.process.reloaded('reloaded')
  t.equal(await varve.metric('varve_config_last_reload_successful'), 1)
})
