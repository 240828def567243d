import { pino, type Logger } from 'pino'
import { Masking } from '../config/masking.js'
import { type Config } from '../config/schema.js'
import { type Io } from './io.js'
import { logLines } from './log-lines.js'
import { prettyLine, wantsColours } from './pretty-line.js'

/** The log of a process. */
export interface Log {
  readonly log: Logger
  readonly masking: Masking
  /** How many lines found no room so far. */
  readonly lost: () => number
}

/** Begins the log of a process that works by this configuration. */
export function logOf (io: Io, config: Config): Log {
  const masking = new Masking(config)
  const hasColours = wantsColours(io.environment)
  const { write, lost } = logLines(io, {
    mask: line => masking.maskJson(line),
    // A person at a terminal, or a program anywhere else.
    render: io.isTerminal ? line => prettyLine(line, hasColours) : line => line,
    onRoom: lines => {
      log.warn({ lost: lines }, 'lines of this log found no room and are lost')
    }
  })
  const log = pino({ level: config.log.level }, { write })
  return { log, masking, lost }
}
