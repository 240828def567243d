import { type ChildProcessByStdio, spawn, execFile } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { type Readable } from 'node:stream'
import { type Test } from 'tap'
import { stringify, parse } from 'yaml'
import { freePort } from './free-port.js'
import { killOnExit } from './run-program.js'
import { until } from './until.js'

/** Targets, intervals and rules of a Prometheus. */
export interface PrometheusOptions {
  /** HOST:PORT of each target, which is its label `instance` too. */
  readonly targets: readonly string[]
  /** Interval of scrapes and rule evaluations. */
  readonly interval?: string
  /** Absolute paths of recording and alerting rules. */
  readonly rules?: readonly string[]
}

/** A series of a result; a scalar is one without labels. */
export interface Series {
  readonly labels: Readonly<Record<string, string>>
  /** Time in seconds and value, in order of time: one point for an instant query. */
  readonly points: ReadonlyArray<readonly [at: number, value: number]>
}

/** A rule after its last evaluation. */
export interface Rule {
  readonly name: string
  readonly query: string
  readonly type: 'alerting' | 'recording'
  readonly health: 'ok' | 'err' | 'unknown'
  readonly lastError?: string
  readonly state?: 'inactive' | 'pending' | 'firing'
  readonly alerts?: ReadonlyArray<
    {
      readonly labels: Record<string, string>,
      readonly annotations: Record<string, string>,
      readonly state: string,
      readonly value: string
    }
  >
}

interface AlertingRule {
  readonly metric?: Record<string, string>
  readonly value?: [number, string]
  readonly values?: Array<[number, string]>
}

/** Starts Debian's Prometheus on the loopback only; it is removed at the end of the test in any case. */
export async function startPrometheus (t: Test, options: PrometheusOptions): Promise<Prometheus> {
  const folder = await mkdtemp(join(tmpdir(), 'varve-prometheus-'))
  t.teardown(async () => {
    await rm(folder, { recursive: true, force: true, maxRetries: 5 })
  })
  const { targets, interval = '500ms', rules = [] } = options
  await writeFile(
    join(folder, 'prometheus.yml'),
    stringify({
      global: { scrape_interval: interval, scrape_timeout: interval, evaluation_interval: interval },
      rule_files: rules,
      scrape_configs: [{ job_name: 'varve', static_configs: [{ targets }] }]
    })
  )
  for (let attempt = 1;; attempt++) {
    const prometheus = new Prometheus(await freePort(), targets.length)
    const fault = await prometheus.start(t, folder)
    if (fault === undefined) return prometheus
    if (attempt === 20 || !fault.includes('address already in use')) {
      throw new Error(`prometheus did not start:\n${fault}`)
    }
  }
}

/** A running Prometheus. */
export class Prometheus {
  readonly url: string
  readonly #port: number
  readonly #targets: number

  constructor (port: number, targets: number) {
    this.#port = port
    this.#targets = targets
    this.url = `http://127.0.0.1:${port}`
  }

  /** Waits until it responds to queries; returns its output if it exits instead. */
  async start (t: Test, folder: string): Promise<string | undefined> {
    const child: ChildProcessByStdio<null, null, Readable> = spawn('prometheus', [
      '--config.file=prometheus.yml',
      '--storage.tsdb.path=data',
      `--web.listen-address=127.0.0.1:${this.#port}`
    ], { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] })
    const gone = new Promise<void>(resolve => {
      child.once('exit', () => {
        resolve()
      }).once('error', () => {
        resolve()
      })
    })
    t.teardown(async () => {
      child.kill('SIGKILL')
      await gone
    })
    await once(child, 'spawn')
    killOnExit(child, folder)
    const outputLines: string[] = []
    for await (const line of createInterface(child.stderr)) {
      outputLines.push(line)
      if (!line.includes('Server is ready to receive web requests')) continue
      child.stderr.resume()
      await until(async () => (await fetch(`${this.url}/-/ready`)).ok, 'prometheus is ready')
      return undefined
    }
    await gone
    return outputLines.join('\n')
  }

  /** Returns the value of an expression, now or at a time in seconds. */
  async query (expression: string, at?: number): Promise<Series[]> {
    return seriesOf(await this.#get('query', { query: expression, ...(at !== undefined && { time: String(at) }) }))
  }

  /** Returns an expression at every step of a time span, in seconds. */
  async queryRange (expression: string, span: { start: number, end: number, step: number }): Promise<Series[]> {
    return seriesOf(
      await this.#get('query_range', {
        query: expression,
        start: String(span.start),
        end: String(span.end),
        step: String(span.step)
      })
    )
  }

  /** Returns the values of a label of the series that a selector finds, as variables of Grafana do. */
  async labelValues (selector: string, label: string): Promise<string[]> {
    return await this.#get(`label/${label}/values?${new URLSearchParams({ 'match[]': selector })}`, {}) as string[]
  }

  /** Returns all rules of all files. */
  async rules (): Promise<Rule[]> {
    const { groups } = await this.#get('rules', {}) as { groups: Array<{ rules: Rule[] }> }
    return groups.flatMap(({ rules }) => rules)
  }

  /** Waits until a scrape of every target at or after a time is stored; Prometheus scrapes first after five seconds. */
  async untilScraped (since: number): Promise<void> {
    await until(async () => {
      const up = await this.query(`up == 1 and timestamp(up) >= ${since}`)
      return up.length === this.#targets
    }, 'every target is scraped')
  }

  async #get (what: string, parameters: Record<string, string>): Promise<unknown> {
    const response = await fetch(`${this.url}/api/v1/${what}`, {
      method: what.startsWith('query') ? 'POST' : 'GET',
      ...(what.startsWith('query') && { body: new URLSearchParams(parameters) })
    })
    const result = await response.json() as { status: string, error?: string, data: unknown }
    if (result.status !== 'success') {
      throw new Error(`${result.error ?? 'no reason given'}: ${JSON.stringify(parameters)}`)
    }
    return result.data
  }
}

function seriesOf (data: unknown): Series[] {
  const { resultType, result } = data as { resultType: string, result: AlertingRule[] | [number, string] }
  if (resultType === 'scalar') return [{ labels: {}, points: [pointOf(result as [number, string])] }]
  return (result as AlertingRule[]).map(({ metric = {}, value, values }) => ({
    labels: metric,
    points: (values ?? (value === undefined ? [] : [value])).map(pointOf)
  }))
}

// Parses numbers that JSON lacks, which Prometheus writes as words.
function pointOf ([at, text]: [number, string]): [number, number] {
  return [at, text === '+Inf' ? Infinity : text === '-Inf' ? -Infinity : Number(text)]
}

/** A recording rule. */
export interface RecordingRule {
  readonly record: string
  readonly expr: string
}

/** An alerting rule. */
export interface AlertRule {
  readonly alert: string
  readonly expr: string
  readonly for: string
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
}

/** Returns the rules of a file, in order. */
export function readRules (text: string): Array<AlertRule | RecordingRule> {
  const { groups } = parse(text) as { groups: Array<{ rules: Array<AlertRule | RecordingRule> }> }
  return groups.flatMap(({ rules }) => rules)
}

/** True for an alerting rule. */
export function isAlert (rule: AlertRule | RecordingRule): rule is AlertRule {
  return 'alert' in rule
}

/** An expression and the samples that promtool expects. */
export interface Samples {
  readonly expr: string
  readonly exp_samples: ReadonlyArray<{ labels: string, value: number }>
}
/** A file of promtool cases. */
export interface Cases {
  readonly tests: ReadonlyArray<{
    readonly name: string,
    readonly alert_rule_test?: ReadonlyArray<{ readonly alertname: string, readonly exp_alerts: readonly unknown[] }>,
    readonly promql_expr_test?: readonly Samples[]
  }>
}

/** Returns the promtool cases of a folder. */
export function readCases (folder: string): Array<Cases['tests'][number]> {
  return readdirSync(folder).filter(name => name.endsWith('.yml'))
    .flatMap(name => (parse(readFileSync(join(folder, name), 'utf8')) as Cases).tests)
}

/** Returns promtool's exit code and output. */
export async function promtool (...args: string[]): Promise<{ code: number, output: string }> {
  // Collects garbage less often, which takes a quarter of the processor time where the heap is small.
  const env = { ...process.env, GOGC: '400' }
  return await new Promise(resolve => {
    execFile('promtool', args, { cwd: join(import.meta.dirname, '../..'), env }, (error, out, err) => {
      resolve({ code: error === null ? 0 : Number(error.code ?? 1), output: out + err })
    })
  })
}

/** Folder of the dashboards that Grafana loads. */
export const dashboardFolder = join(import.meta.dirname, '../../grafana/dashboards')

/** A query of a panel. */
export interface Target {
  readonly refId: string
  readonly expr: string
  readonly instant: boolean
  readonly range: boolean
}

/** A panel, or the title of a section. */
export interface Panel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly description?: string
  readonly gridPos: { readonly x: number, readonly y: number, readonly w: number, readonly h: number }
  readonly targets?: readonly Target[]
  readonly fieldConfig?: {
    readonly defaults: {
      readonly unit?: string,
      readonly thresholds?: { readonly steps: ReadonlyArray<{ readonly value: number | null }> }
    }
  }
}

/** A dashboard as it is committed. */
export interface Dashboard {
  readonly uid: string
  readonly title: string
  readonly tags: readonly string[]
  readonly schemaVersion: number
  readonly links: ReadonlyArray<{ readonly tags: readonly string[], readonly includeVars: boolean }>
  readonly annotations: {
    readonly list: ReadonlyArray<{ readonly name: string, readonly target: { readonly expr: string } }>
  }
  readonly templating: {
    readonly list: ReadonlyArray<{ readonly name: string, readonly query: unknown, readonly definition?: string }>
  }
  readonly panels: readonly Panel[]
}

/** A query with its place, as `helping/Hit rate/A`. */
export interface Query extends Target {
  readonly at: string
}

/** Returns every dashboard by its file name. */
export function dashboards (): Map<string, Dashboard> {
  const files = readdirSync(dashboardFolder).filter(name => name.endsWith('.json'))
  return new Map(
    files.map(
      file => [
        file.slice(0, -'.json'.length),
        JSON.parse(readFileSync(join(dashboardFolder, file), 'utf8')) as Dashboard
      ]
    )
  )
}

/** Returns every query of every panel. */
export function queries (): Query[] {
  return [...dashboards()].flatMap(([name, { panels }]) =>
    panels.flatMap(panel =>
      (panel.targets ?? []).map(target => ({ ...target, at: `${name}/${panel.title}/${target.refId}` }))
    )
  )
}
