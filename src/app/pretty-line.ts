import { type Environment } from '../config/load.js'

/** Log line as pino prints it, parsed. */
interface LogRecord {
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
const levelWidth = 5
// Fields that are equal on every line, or that the pretty line shows elsewhere.
const omittedKeys: readonly string[] = ['level', 'time', 'pid', 'hostname', 'msg']
// Characters that control a terminal, are invisible or change the writing direction.
const invisibleChars = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu

/** Follows the NO_COLOR convention (no-color.org); a dumb terminal gets no colours either. */
export function allowsColours ({ NO_COLOR: noColour = '', TERM: terminal }: Environment): boolean {
  return noColour === '' && terminal !== 'dumb'
}

/** Formats a line as `HH:MM:SS level message key=value`; text from outside cannot control the terminal. */
export function prettyLine (line: string, hasColours: boolean): string {
  const record = JSON.parse(line) as LogRecord
  const { name, colour } = levels[record.level] ?? { name: String(record.level), colour: '0' }
  const paint = (text: string, code: string): string => hasColours ? `\u001b[${code}m${text}\u001b[0m` : text
  const pairs = Object.entries(record).filter(([key]) => !omittedKeys.includes(key)).map(([key, value]) =>
    ` ${paint(`${escapeInvisible(key)}=`, '2')}${formatValue(value)}`
  )
  const time = new Date(record.time).toTimeString().slice(0, 8)
  return `${paint(time, '2')} ${paint(name.padEnd(levelWidth), colour)} ${escapeInvisible(record.msg ?? '')}${
    pairs.join('')
  }\n${stackTraceOf(record['err'])}`
}

function formatValue (value: unknown): string {
  if (isErrorRecord(value)) return formatValue(value.message)
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  // Text with a blank is quoted, or it could pass for the next pair.
  return /^[\x21\x23-\x5b\x5d-\x7e]+$/.test(text) || typeof value !== 'string'
    ? escapeInvisible(text)
    : escapeInvisible(JSON.stringify(text))
}

function stackTraceOf (fault: unknown): string {
  if (!isErrorRecord(fault)) return ''
  return fault.stack.split('\n').slice(1).map(text => `  ${escapeInvisible(text)}\n`).join('')
}

function isErrorRecord (value: unknown): value is { message: string, stack: string } {
  const { message, stack } = (value ?? {}) as Record<string, unknown>
  return typeof message === 'string' && typeof stack === 'string'
}

function escapeInvisible (text: string): string {
  return text.replace(invisibleChars, sign => `\\u{${sign.codePointAt(0)?.toString(16)}}`)
}
