import { pino, type Logger } from 'pino'
import { SecretMasker } from '../config/secrets.js'
import { type Config } from '../config/schema.js'
import { type Io } from './io.js'
import { logWriterOf } from './log-writer.js'
import { prettyLine, allowsColours } from './pretty-line.js'

const nameOfLevel: Readonly<Record<string, string>> = {
  10: 'trace',
  20: 'debug',
  30: 'info',
  40: 'warn',
  50: 'error',
  60: 'fatal'
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
  recovered.subscribe(lost => {
    log.warn({ lost }, 'log lines lost: the log buffer was full')
  })
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
    const shownLevel = levelNames ? JSON.stringify(nameOfLevel[level] ?? level) : level
    return `{"level":${shownLevel},"time":${isoTimes ? isoTime : time}`
  })
}
