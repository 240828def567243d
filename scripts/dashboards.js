import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { at } from './ground.js'

// Generates grafana/dashboards from grafana/source; an argument names another output folder.
const [into = at('grafana/dashboards')] = process.argv.slice(2)
const source = at('grafana/source/dashboards')

mkdirSync(into, { recursive: true })
for (const file of readdirSync(source)) {
  const { default: dashboard } = await import(pathToFileURL(resolve(source, file)).href)
  writeFileSync(join(into, `${file.slice(0, -'.js'.length)}.json`), `${JSON.stringify(dashboard, undefined, 2)}\n`)
}
