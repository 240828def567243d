import { parse } from 'yaml'

/** A rule that is worked out again and again, and kept under a name of its own. */
export interface RecordingRule {
  readonly record: string
  readonly expr: string
}

/** A rule that an operator is told of. */
export interface AlertRule {
  readonly alert: string
  readonly expr: string
  readonly for: string
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
}

/** The rules of a file, in their order. */
export function readRules (text: string): Array<AlertRule | RecordingRule> {
  const { groups } = parse(text) as { groups: Array<{ rules: Array<AlertRule | RecordingRule> }> }
  return groups.flatMap(({ rules }) => rules)
}

/** Whether it is one that an operator is told of. */
export function isAlert (rule: AlertRule | RecordingRule): rule is AlertRule {
  return 'alert' in rule
}
