import { type AlertRule, isAlert, type RecordingRule } from '../prometheus-rules.js'

/**
 * Rewrites a rule's expression for a span of seconds: inlines recorded series with their selectors, and sets every
 * range to the whole span.
 */
export function overRange (expression: string, range: string, rules: ReadonlyArray<AlertRule | RecordingRule>): string {
  const inPlace = rules.reduce((text, rule) =>
    isAlert(rule)
      ? text
      : text.replace(
        new RegExp(`${rule.record}\\b(?:\\{([^}]*)\\})?(\\[\\d+[mhd]\\])?`, 'g'),
        (_, matchers?: string, back?: string) =>
          `(${selected(overRange(rule.expr, range, rules), matchers)})${back === undefined ? '' : `[${range}:500ms]`}`
      ), expression)
  return inPlace.replace(/\[\d+[mhd]\]/g, `[${range}]`).replace(/\[\d+[mhd]:\d+[mhd]\]/g, `[${range}:500ms]`).replace(
    /offset \d+[mhd]/g,
    'offset 1s'
  )
}

// Selects by the labels of every metric inside, which recorded series keep.
function selected (expression: string, matchers?: string): string {
  return matchers === undefined
    ? expression
    : expression.replace(
      /\b(varve_[a-z0-9_]+)(?:\{([^}]*)\})?/g,
      (_, metric: string, own?: string) => `${metric}{${own === undefined ? '' : `${own},`}${matchers}}`
    )
}

/** Returns the part of an alert that is compared: its first condition up to the operator. */
export function comparedExpression (expression: string): string {
  let depth = 0
  for (let at = 0; at < expression.length; at++) {
    const rest = expression.slice(at)
    if (/^[({[]/.test(rest)) depth++
    if (/^[)}\]]/.test(rest)) depth--
    if (depth === 0 && /^\s(?:==|!=|<|>|and|or|unless)\s/.test(rest)) return expression.slice(0, at)
  }
  return expression
}
