import { type Environment } from '../config/load.js'

/** A line of the log as pino prints it, read again. */
interface Line {
  readonly level: number
  readonly time: number
  readonly msg?: string
  readonly [key: string]: unknown
}

const levels: Readonly<Record<number, { readonly name: string, readonly colour: string }>> = {
  10: { name: 'trace', colour: '90' },
  20: { name: 'debug', colour: '90' },
  30: { name: 'info', colour: '32' },
  40: { name: 'warn', colour: '33' },
  50: { name: 'error', colour: '31' },
  60: { name: 'fatal', colour: '1;31' }
}
const widest = 5
// What every line of a process has, or stands elsewhere in it.
const elsewhere: readonly string[] = ['level', 'time', 'pid', 'hostname', 'msg']
// Signs that a terminal or an eye takes for something else than signs: they control it, are not seen, or turn the
// writing round.
const unseen = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu

/** Whether a terminal wants colours (no-color.org). */
export function wantsColours ({ NO_COLOR: noColour = '', TERM: terminal }: Environment): boolean {
  return noColour === '' && terminal !== 'dumb'
}

/**
 * The same line for a person at a terminal: `HH:MM:SS level message key=value`. Nothing that others have said can
 * control the terminal.
 */
export function prettyLine (line: string, hasColours: boolean): string {
  const said = JSON.parse(line) as Line
  const { name, colour } = levels[said.level] ?? { name: String(said.level), colour: '0' }
  const paint = (text: string, code: string): string => hasColours ? `\u001b[${code}m${text}\u001b[0m` : text
  const pairs = Object.entries(said).filter(([key]) => !elsewhere.includes(key)).map(([key, value]) =>
    ` ${paint(`${seen(key)}=`, '2')}${shown(value)}`
  )
  const time = new Date(said.time).toTimeString().slice(0, 8)
  return `${paint(time, '2')} ${paint(name.padEnd(widest), colour)} ${seen(said.msg ?? '')}${pairs.join('')}\n${
    traceIn(said['err'])
  }`
}

function shown (value: unknown): string {
  if (isFault(value)) return shown(value.message)
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  // What has a blank in it could pass for the next pair.
  return /^[\x21\x23-\x5b\x5d-\x7e]+$/.test(text) || typeof value !== 'string' ? seen(text) : seen(JSON.stringify(text))
}

// Where an error comes from, below its line.
function traceIn (fault: unknown): string {
  if (!isFault(fault)) return ''
  return fault.stack.split('\n').slice(1).map(text => `  ${seen(text)}\n`).join('')
}

function isFault (value: unknown): value is { message: string, stack: string } {
  const { message, stack } = (value ?? {}) as Record<string, unknown>
  return typeof message === 'string' && typeof stack === 'string'
}

function seen (text: string): string {
  return text.replace(unseen, sign => `\\u{${sign.codePointAt(0)?.toString(16)}}`)
}
