const seconds = { m: 1, h: 60, d: 1440 } as const

/**
 * Returns the text of a rules file with each minute of a range or a delay as a second. Thresholds and per-second rates
 * stay, so a test waits seconds for alerts.
 */
export function accelerateRules (rules: string): string {
  return rules.replace(
    /(?<=\[|\[\d+[mhd]:|offset |for: )(\d+)([mhd])\b/g,
    (_, count: string, unit: keyof typeof seconds) => `${Number(count) * seconds[unit]}s`
  )
}
