import { pino, type Logger } from 'pino'
import { SecretMasker } from '../config/secrets.js'
import { type Config } from '../config/schema.js'
import { type Io } from './io.js'
import { TypedEvent } from '../typed-event.js'
import { type Environment } from '../config/load.js'
import { type OverallStatus } from '../http/status.js'
import { type Level } from '../http/status-conditions.js'

const levels: Readonly<Record<number, { readonly name: string, readonly colour: string }>> = {
  10: { name: 'trace', colour: '90' },
  20: { name: 'debug', colour: '90' },
  30: { name: 'info', colour: '32' },
  40: { name: 'warn', colour: '33' },
  50: { name: 'error', colour: '31' },
  60: { name: 'fatal', colour: '1;31' }
}
// Level and time begin every line of pino.
const lineHead = /^\{"level":(\d+),"time":(\d+)/

/** Log of a process, with its masking of secrets. */
export interface Log {
  readonly log: Logger
  readonly masker: SecretMasker
  /** Number of lines dropped since the start. */
  readonly lostLines: () => number
  /** Prints later lines in the form of another configuration. */
  readonly useForm: (config: Config) => void
}

/** Opens the log with the level and the secrets of this configuration. */
export function openLog (
  io: Pick<Io, 'environment' | 'isTerminal' | 'out' | 'bufferedBytes'>,
  config: Config
): Log {
  const masker = new SecretMasker(config)
  let form = config.log
  const hasColours = allowsColours(io.environment)
  const { write, lostLines, recovered } = logWriterOf(io, {
    mask: line => masker.maskJson(line),
    // Terminals get readable lines, programs get JSON.
    render: io.isTerminal ? line => prettyLine(line, hasColours) : line => jsonLine(line, form)
  })
  const log = pino({ level: config.log.level }, { write })
  recovered.subscribe(lost => log.warn({ lost }, 'log lines lost: the log buffer was full'))
  return {
    log,
    masker,
    lostLines,
    useForm: next => {
      form = next.log
    }
  }
}

/** Prints a line of pino as programs get it: level and time as numbers, or as the configuration says. */
function jsonLine (line: string, { levelNames, isoTimes }: Config['log']): string {
  if (!levelNames && !isoTimes) return line
  return line.replace(lineHead, (_, level: string, time: string) => {
    const isoTime = JSON.stringify(new Date(Number(time)))
    const shownLevel = levelNames ? JSON.stringify(levels[Number(level)]?.name ?? level) : level
    return `{"level":${shownLevel},"time":${isoTimes ? isoTime : time}`
  })
}

/** Writer of log lines that drops lines when its buffer is full. */
export interface LogWriter {
  readonly write: (line: string) => void
  /** Number of lines dropped since the start. */
  readonly lostLines: () => number
  /** The buffer has drained; the event is the number of lines lost meanwhile. */
  readonly recovered: TypedEvent<number>
}

/** Transformations of a log writer. */
export interface LineTransforms {
  /** Removes secrets from a line. */
  readonly mask: (line: string) => string
  /** Formats a line for a terminal or for programs. */
  readonly render: (line: string) => string
}

// Lines beyond this limit are dropped, because a stuck reader would otherwise fill the memory (law 10: nothing grows
// without bound).
const maxBufferedBytes = 1_048_576
// Reports lost lines once half the buffer is free; at a higher limit, a slow reader would get such reports all the
// time.
const recoveredBytes = maxBufferedBytes / 2
// Position of pino's level digit, and the digit of warnings. Warnings and errors may quote text from outside, so they
// need masking.
const levelOffset = '{"level":'.length
const warningDigit = '4'
// Access lines quote the client's URL, which may contain an API key.
const accessLineEnd = '"msg":"request completed"}\n'

/** Writes lines while the buffer has capacity; a full disk or a stuck reader costs log lines and nothing else. */
export function logWriterOf (
  { out, bufferedBytes }: Pick<Io, 'out' | 'bufferedBytes'>,
  { mask, render }: LineTransforms
): LogWriter {
  const recovered = new TypedEvent<number>()
  let lost = 0
  let reportedLost = 0
  let isTorn = false
  const done = (error?: Error | null): void => {
    if (error !== undefined && error !== null) {
      lost++
      isTorn = true
    } else if (lost > reportedLost && bufferedBytes() <= recoveredBytes) {
      const newlyLost = lost - reportedLost
      reportedLost = lost
      recovered.publish(newlyLost)
    }
  }
  return {
    lostLines: () => lost,
    recovered,
    write: line => {
      if (bufferedBytes() > maxBufferedBytes) {
        lost++
        return
      }
      const needsMasking = (line[levelOffset] ?? '') >= warningDigit || line.endsWith(accessLineEnd)
      const text = render(needsMasking ? mask(line) : line)
      // A full disk may have cut the previous line, so the next one starts on a new line.
      const wholeLine = isTorn ? `\n${text}` : text
      isTorn = false
      out(wholeLine, done)
    }
  }
}

/** Log line as pino prints it, parsed. */
interface LogRecord {
  readonly level: number
  readonly time: number
  readonly msg?: string
  readonly [key: string]: unknown
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

const everyMs = 2000

/** Logs each level that lasts, with its conditions, until the timer is cleared: page, /readyz and log say the same. */
export function logLevels (log: Pick<Logger, 'info' | 'warn'>, readiness: () => OverallStatus): NodeJS.Timeout {
  let logged: Level = 'green'
  let last: Level = 'green'
  return setInterval(() => {
    const { level: current, degraded } = readiness()
    // The sandbox alone is no change of level: a line at the start names it.
    const level = degraded.every(text => text === 'sandbox') ? 'green' : current
    const isLasting = level === last
    last = level
    // Leaves out a level that is over at once (law 10: nothing grows without bound).
    if (!isLasting || level === logged) return
    logged = level
    if (level === 'green') log.info({ level }, 'level changed')
    else log.warn({ level, degraded }, 'level changed')
  }, everyMs).unref()
}

/**
 * Limits lines of one kind (law 10: nothing grows without bound). The returned function returns the number of
 * suppressed lines since the last logged one; undefined suppresses this line.
 */
export function logRateLimit (now: () => number, { lines, perMs }: LogRate): () => number | undefined {
  let beganAtMs = -Infinity
  let logged = 0
  let suppressed = 0
  return () => {
    if (now() - beganAtMs >= perMs) [beganAtMs, logged] = [now(), 0]
    if (++logged > lines) {
      suppressed++
      return undefined
    }
    const count = suppressed
    suppressed = 0
    return count
  }
}

/** Highest number of lines within a time span. */
export interface LogRate {
  readonly lines: number
  readonly perMs: number
}
