/** Severity from healthy to worst; the metric `varve_level` is the place in this list. */
export const levels = ['green', 'amber', 'red'] as const

/** One level of the closed list. */
export type Level = typeof levels[number]

/** Something that is wrong, in words. */
export interface StatusCondition {
  readonly level: Exclude<Level, 'green'>
  readonly text: string
}

/** Clients get errors, or no upstream is usable. */
export function red (text: string): StatusCondition {
  return { level: 'red', text }
}

/** Clients do not notice it yet. */
export function amber (text: string): StatusCondition {
  return { level: 'amber', text }
}

/** Returns the worst level of some conditions. */
export function levelOf (conditions: readonly StatusCondition[]): Level {
  if (conditions.some(({ level }) => level === 'red')) return 'red'
  return conditions.length > 0 ? 'amber' : 'green'
}
