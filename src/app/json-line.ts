import { type Config } from '../config/schema.js'

const names: Readonly<Record<string, string>> = {
  10: 'trace',
  20: 'debug',
  30: 'info',
  40: 'warn',
  50: 'error',
  60: 'fatal'
}
// Level and time begin every line of pino.
const head = /^\{"level":(\d+),"time":(\d+)/

/** Prints a line of pino as programs get it: level and time as numbers, or as the configuration says. */
export function jsonLine (line: string, { levelNames, isoTimes }: Config['log']): string {
  if (!levelNames && !isoTimes) return line
  return line.replace(head, (_, level: string, time: string) => {
    const isoTime = JSON.stringify(new Date(Number(time)))
    return `{"level":${levelNames ? JSON.stringify(names[level] ?? level) : level},"time":${isoTimes ? isoTime : time}`
  })
}
