import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse, stringify } from 'yaml'
import { type AlertRule, isAlert, promtool, readCases, type RecordingRule } from './support/prometheus-rules.js'

const root = join(import.meta.dirname, '..')
const file = join(root, 'config/prometheus-rules.yml')
const tests = readCases(join(root, 'test/rules'))

t.test('the cases detect alerts that never fire, or fire too early, too late or too easily', async t => {
  const dir = t.testdir({})
  const { groups } = parse(readFileSync(file, 'utf8')) as { groups: Array<{ rules: Array<AlertRule | RecordingRule> }> }
  // Runs each group with its own cases and the recording rules it needs: all rules per case would take minutes.
  const groupsOfAlerts = groups.filter(({ rules }) => rules.some(isAlert))
  const records = groups.flatMap(({ rules }) => rules).filter((rule): rule is RecordingRule => !isAlert(rule))
  const takenBy = (expressions: string): RecordingRule[] => {
    const taken = records.filter(({ record }) => expressions.includes(record))
    return taken.some(({ expr }) => !expressions.includes(expr))
      ? takenBy([expressions, ...taken.map(({ expr }) => expr)].join('\n'))
      : taken
  }
  const casesOf = (names: readonly string[], rulesFile: string): string => {
    const own = tests.map(({ alert_rule_test: cases = [], ...test }) => ({
      ...test,
      promql_expr_test: [],
      alert_rule_test: cases.filter(({ alertname }) => names.includes(alertname))
    }))
    return stringify({
      rule_files: [rulesFile],
      evaluation_interval: '1m',
      tests: own.filter(({ alert_rule_test: cases }) => cases.length > 0)
    })
  }
  /** Changes every alert that the change applies to; returns those that no case has noticed. */
  const unnoticed = async (change: (rule: AlertRule) => Partial<AlertRule> | undefined): Promise<string[]> => {
    const changed: string[] = []
    const files: Array<{ readonly rules: string, readonly cases: string }> = []
    for (const [at, { rules, ...group }] of groupsOfAlerts.entries()) {
      // Leaves out unchanged alerts and their cases, which prove nothing about the change.
      const alerts = rules.filter(isAlert).flatMap(rule => {
        const by = change(rule)
        return by === undefined ? [] : [{ ...rule, ...by }]
      })
      if (alerts.length === 0) continue
      const names = alerts.map(({ alert }) => alert)
      changed.push(...names)
      const records = takenBy(alerts.map(({ expr }) => expr).join('\n'))
      const file = { rules: join(dir, `rules-${at}.yml`), cases: join(dir, `cases-${at}.yml`) }
      writeFileSync(
        file.rules,
        stringify({ groups: [{ name: 'records', rules: records }, { ...group, rules: alerts }] })
      )
      writeFileSync(file.cases, casesOf(names, `rules-${at}.yml`))
      files.push(file)
    }
    t.match(await promtool('check', 'rules', ...files.map(({ rules }) => rules)), { code: 0 })
    const { output } = await promtool('test', 'rules', ...files.map(({ cases }) => cases))
    const noticed = new Set([...output.matchAll(/alertname: ?(\w+), time/g)].map(([, name]) => name))
    t.ok(changed.length > 0)
    return changed.filter(name => !noticed.has(name))
  }
  t.same(await unnoticed(({ expr }) => ({ expr: `(${expr}) and on () vector(0) > 1` })), [], 'never')
  t.same(await unnoticed(rule => rule.for.startsWith('0') ? undefined : { for: '0m' }), [], 'at once')
  t.same(await unnoticed(() => ({ for: '100h' })), [], 'too late')
  t.same(
    await unnoticed(({ expr }) => {
      const loose = expr.replace(
        /([<>]) (0\.\d+|[1-9]\d*)\b/,
        (_, sign: string, number: string) => `${sign} ${sign === '>' ? Number(number) / 1000 : Number(number) * 1000}`
      )
      return loose === expr ? undefined : { expr: loose }
    }),
    [],
    'at almost nothing'
  )
  for (const nth of [1, 2]) {
    t.same(
      await unnoticed(({ expr }) => {
        const parts = conditionsOf(expr)
        return parts[nth] === undefined ? undefined : { expr: parts.filter((_, at) => at !== nth).join(' ') }
      }),
      [],
      `without condition ${nth}`
    )
  }
})

/** Splits an expression into its conditions, each but the first with the operator before it. */
function conditionsOf (expression: string): string[] {
  const parts: string[] = []
  let depth = 0
  for (const piece of expression.split(/\s+(?=(?:and|or|unless) )/)) {
    if (depth > 0) parts.push(`${parts.pop()} ${piece}`)
    else parts.push(piece)
    depth += piece.split('(').length - piece.split(')').length
  }
  return parts
}
