import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { parse, stringify } from 'yaml'
import { at } from './ground.js'

// Sets the runbook URLs in config/prometheus-rules.yml to the package's homepage, then generates the PrometheusRule for
// the Prometheus operator; an argument names another file.
const { homepage } = JSON.parse(readFileSync(at('package.json'), 'utf8'))
const given = readFileSync(at('config/prometheus-rules.yml'), 'utf8')
const rules = given.replace(/(?<=runbook_url: )\S*(?=docs\/runbooks\.md#)/g, homepage)
if (rules !== given) writeFileSync(at('config/prometheus-rules.yml'), rules)

const [into = at('deploy/kubernetes/components/monitoring/prometheus-rule.yaml')] = process.argv.slice(2)
const rule = {
  apiVersion: 'monitoring.coreos.com/v1',
  kind: 'PrometheusRule',
  metadata: { name: 'varve', labels: { 'app.kubernetes.io/name': 'varve' } },
  spec: { groups: parse(rules).groups }
}

mkdirSync(dirname(into), { recursive: true })
writeFileSync(
  into,
  `# Generated from config/prometheus-rules.yml, which has the comments, by node scripts/prometheus-rule.js.\n${
    stringify(rule, { lineWidth: 0 })
  }`
)
