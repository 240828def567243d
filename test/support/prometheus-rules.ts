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
