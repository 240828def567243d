/** Builds a Markdown table with aligned columns, readable in a terminal too. */
export function tableOf (columns, rows) {
  const texts = [columns, ...rows].map(row => row.map(String))
  const widths = columns.map((_, at) => Math.max(3, ...texts.map(row => row[at].length)))
  const line = row =>
    `| ${row.map((text, at) => at === 0 ? text.padEnd(widths[at]) : text.padStart(widths[at])).join(' | ')} |`
  const rule = `| ${
    widths.map((width, at) => at === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`).join(' | ')
  } |`
  return [line(texts[0]), rule, ...texts.slice(1).map(line)].join('\n')
}

/** Formats a ratio with its spread. */
export const spread = ({ ratio, least, most }) => `${ratio.toFixed(2)} (${least.toFixed(2)}-${most.toFixed(2)})`

/** Formats a count with thousands separators. */
export const whole = value => Math.round(value).toLocaleString('en-US')

/** Formats a median of milliseconds with its spread. */
export const times = ({ median, least, most }) => `${median.toFixed(2)} (${least.toFixed(2)}-${most.toFixed(2)})`
