import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { at } from './ground.js'

// Writes grafana/dashboards, or the same into another folder, from what is in grafana/source.
const [into = at('grafana/dashboards')] = process.argv.slice(2)
const source = at('grafana/source/dashboards')

mkdirSync(into, { recursive: true })
for (const file of readdirSync(source)) {
  const { default: dashboard } = await import(pathToFileURL(resolve(source, file)).href)
  writeFileSync(join(into, `${file.slice(0, -'.js'.length)}.json`), `${JSON.stringify(dashboard, undefined, 2)}\n`)
}
