import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { type MetricDefinition, metricList } from '../src/metrics/definitions.js'
import { type Panel, dashboardFolder, dashboards, queries } from './support/prometheus.js'

const root = join(import.meta.dirname, '..')

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

t.test('the dashboards show every metric of varve', async t => {
  const drawn = queries().map(({ expr }) => expr).join('\n')
  const isDrawn = ({ name, type }: MetricDefinition): boolean =>
    new RegExp(`\\b${name}${type === 'histogram' ? '_(?:bucket|sum|count)' : ''}\\{`).test(drawn)
  t.same(metricList.filter(metric => !isDrawn(metric)).map(({ name }) => name), [])
})

function checkDescription (t: Test, at: string, { description = '', type, fieldConfig }: Panel): void {
  t.match(description, /^[^.].{40,}\.$/, `${at} has a sentence`)
  t.notMatch(description, /\. [A-Z]/, `${at}: one sentence`)
  if (type !== 'stat') return
  t.ok(fieldConfig?.defaults.unit, `${at} has a unit`)
  t.ok(fieldConfig?.defaults.thresholds?.steps.length, `${at} has thresholds`)
}
