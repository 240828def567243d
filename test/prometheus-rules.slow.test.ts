import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { isAlert, promtool, readCases, readRules } from './support/prometheus.js'

const root = join(import.meta.dirname, '..')
const folder = join(root, 'test/rules')
const file = join(root, 'config/prometheus-rules.yml')
const rules = readRules(readFileSync(file, 'utf8'))
const files = readdirSync(folder).filter(name => name.endsWith('.yml'))
const tests = readCases(folder)
const firings = tests.flatMap(({ alert_rule_test: cases = [] }) => cases)
const samples = tests.flatMap(({ promql_expr_test: cases = [] }) => cases)

t.test('promtool finds no fault in the rules or in the configuration that names them', async t => {
  const { code, output } = await promtool('check', 'rules', file)
  t.match(output, `SUCCESS: ${rules.length} rules found`)
  t.equal(code, 0, output)
  const whole = await promtool('check', 'config', 'config/prometheus.yml')
  t.match(whole.output, /SUCCESS: 1 rule files found/)
  t.equal(whole.code, 0, whole.output)
})

t.test('each alert has a case in which it fires, with labels and annotations, and one in which not', async t => {
  for (const rule of rules.filter(isAlert)) {
    const cases = firings.filter(({ alertname }) => alertname === rule.alert)
    t.ok(cases.some(({ exp_alerts: alerts }) => alerts.length > 0), `${rule.alert} fires`)
    // Counts a pending alert as a case of its own, if the alert has a delay.
    t.ok(
      cases.filter(({ exp_alerts: alerts }) => alerts.length === 0).length > (/^0/.test(rule.for) ? 0 : 1),
      `${rule.alert} does not fire`
    )
  }
  const names = rules.filter(isAlert).map(({ alert }) => alert)
  t.same(
    [...new Set(firings.map(({ alertname }) => alertname))].filter(name => !names.includes(name)),
    [],
    'no case names an unknown alert'
  )
})

t.test('recorded series have exact values in a case with traffic, and 0 or none in one without', async t => {
  for (const rule of rules) {
    if (isAlert(rule)) continue
    const cases = samples.filter(({ expr }) => expr.includes(rule.record)).map(({ exp_samples: expected }) =>
      expected.map(({ value }) => value)
    )
    t.ok(cases.some(values => values.some(value => value > 0)), `${rule.record} has a value`)
    t.ok(cases.some(values => values.length === 0 || values.includes(0)), `${rule.record} is 0 or nothing`)
  }
})

t.test('every case comes out as written', async t => {
  const { code, output } = await promtool('test', 'rules', ...files.map(name => join(folder, name)))
  t.equal(code, 0, output)
})
