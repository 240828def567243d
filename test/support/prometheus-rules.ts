import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'

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
  return await new Promise(resolve => {
    execFile('promtool', args, { cwd: join(import.meta.dirname, '../..') }, (error, out, err) => {
      resolve({ code: error === null ? 0 : Number(error.code ?? 1), output: out + err })
    })
  })
}
