import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { parse, stringify } from 'yaml'
import { at } from './ground.js'

// Writes deploy/kubernetes/monitoring/prometheus-rule.yaml, or the same elsewhere: the rules of config/prometheus-rules.yml as the Prometheus operator takes them.
const [into = at('deploy/kubernetes/monitoring/prometheus-rule.yaml')] = process.argv.slice(2)
const rule = {
  apiVersion: 'monitoring.coreos.com/v1',
  kind: 'PrometheusRule',
  metadata: { name: 'varve', labels: { 'app.kubernetes.io/name': 'varve' } },
  spec: { groups: parse(readFileSync(at('config/prometheus-rules.yml'), 'utf8')).groups }
}

mkdirSync(dirname(into), { recursive: true })
writeFileSync(into, `# Made by node scripts/prometheus-rule.js of config/prometheus-rules.yml, where the reasons are.\n${stringify(rule, { lineWidth: 0 })}`)
