import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import {
  type LabelValues,
  metricGroups,
  metricList,
  namedIn,
  type MetricDefinition
} from '../../src/metrics/definitions.js'
import { type ConfiguredCounts, maxSeries } from '../support/scrape.js'

const file = join(import.meta.dirname, '../../docs/metrics.md')
const printedSection = /(?<=<!-- printed from src\/metrics\/definitions\.ts: begins -->\n)[^]*(?=<!-- ends -->)/

// Puts longer lists into a table of their own.
const mostInline = 5

const code = (text: string): string => `\`${text}\``

/** Returns the generated section of docs/metrics.md, between its two marks. */
function metricsPage (): string {
  const head = '| metric | meaning |\n|---|---|'
  const sections = Object.entries(metricGroups).map(([title, group]) =>
    `### ${title}\n\n${head}\n${namedIn(group).map(lineOf).join('\n')}\n`
  )
  const seriesOf = (configured: ConfiguredCounts): number =>
    metricList.reduce((sum, row) => sum + maxSeries(row, configured), 0)
  const one = seriesOf({ upstreams: 1, clients: 0 })
  const text = (count: number): string => count.toLocaleString('en')
  const limits = `One upstream without client keys has ${text(one)} series at most; each further upstream adds ` +
    `${text(seriesOf({ upstreams: 2, clients: 0 }) - one)}, each client key ` +
    `${text(seriesOf({ upstreams: 1, clients: 1 }) - one)}.`
  return `\n${sections.join('\n')}\n${limits}\n\n${lists()}\n`
}

function lineOf ({ name, type, labels, help, aggregation }: MetricDefinition): string {
  const names = Object.keys(labels)
  const shown = `${name}${names.length > 0 ? `{${names.join(',')}}` : ''}`
  const kind = type === 'counter' ? '' : ` *${aggregation === undefined ? type : `${type}, ${aggregation}`}*`
  const values = Object.entries(labels).map(([label, of]) => isInline(of) ? ` ${code(label)}: ${valuesOf(of)}.` : '')
  return `| ${code(shown)} | ${help}${values.join('')}${kind} |`
}

function isInline (values: LabelValues): values is readonly string[] {
  return typeof values !== 'string' && values.length <= mostInline
}

// Statuses of HTTP need no list: those that have no series of their own count as their class.
const valuesOf = (values: readonly string[]): string => {
  const statuses = values.filter(value => /^\d{3}$/.test(value))
  const others = values.filter(value => !statuses.includes(value)).map(code)
  return [...statuses.length > 0 ? [`${statuses.length} statuses of HTTP`] : [], ...others].join(', ')
}

function lists (): string {
  const users = new Map<string, string[]>()
  const firstOf = new Map<string, readonly string[]>()
  for (const { name, labels } of metricList) {
    for (const [label, values] of Object.entries(labels)) {
      // Names of the configuration, of the chain and of the release say themselves what they are.
      if (typeof values === 'string' || isInline(values)) continue
      const first = firstOf.get(label) ?? []
      if (first.length === 0) firstOf.set(label, values)
      const key = `| ${code(label)} | ${differenceOf(values, first) ?? valuesOf(values)} |`
      users.set(key, [...users.get(key) ?? [], name])
    }
  }
  return `| label | can be | of |\n|---|---|---|\n${
    [...users].map(([line, of]) => `${line} ${of.length > 3 ? 'all others that have it' : of.map(code).join(', ')} |`)
      .join('\n')
  }`
}

/** Returns how a list differs from the first of its label, if that is shorter than the list. */
function differenceOf (values: readonly string[], first: readonly string[]): string | undefined {
  if (values === first) return undefined
  const missing = first.filter(value => !values.includes(value))
  const added = values.filter(value => !first.includes(value))
  if (missing.length + added.length >= values.length / 2) return undefined
  return [
    'the first list',
    ...missing.length > 0 ? [`without ${valuesOf(missing)}`] : [],
    ...added.length > 0 ? [`and ${valuesOf(added)}`] : []
  ].join(' ')
}

t.test('docs/metrics.md matches the source (RENEW=1 npm test -- test/metrics/metrics-page.test.ts)', async t => {
  if (process.env['RENEW'] === '1') {
    writeFileSync(
      file,
      readFileSync(file, 'utf8').replace(printedSection, () => metricsPage())
    )
  }
  t.equal(printedSection.exec(readFileSync(file, 'utf8'))?.[0], metricsPage())
})
