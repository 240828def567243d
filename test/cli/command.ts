import { setMaxListeners } from 'node:events'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { type Test } from 'tap'
import { type ExitCode, type ProcessFault, type Io } from '../../src/app/io.js'
import { main } from '../../src/cli/main.js'
import { type Environment } from '../../src/config/load.js'

/** A command that runs in this process, with a terminal and signals that the test controls. */
export interface Command {
  readonly code: Promise<ExitCode>
  /** Returns all output so far. */
  out(): string
  err(): string
  /** Returns the log records so far: all lines that are JSON. */
  log(): Array<Record<string, unknown>>
  /** Waits until the output matches; rejects if the command ends earlier. */
  waitForOutput(pattern: RegExp): Promise<RegExpExecArray>
  signal(name: 'SIGINT' | 'SIGTERM' | 'SIGHUP'): void
  /** Raises an unhandled rejection or uncaught exception. */
  raiseFault(kind: ProcessFault, error: unknown): void
  /** Resolves with the code of an immediate exit. */
  readonly exited: Promise<number>
  hasExited(): boolean
}

/** Starts a command, and stops it at the end of the test if it still runs. */
export function startCommand (
  t: Test,
  argv: readonly string[],
  { environment = {}, input = '', isTerminal = false, hasLostTerminal = false }: {
    environment?: Environment,
    input?: string,
    isTerminal?: boolean,
    hasLostTerminal?: boolean
  } = {}
): Command {
  let out = ''
  let err = ''
  let hasEnded = false
  const wrote = new EventTarget()
  setMaxListeners(0, wrote)
  const listeners: Array<{ signal: string, listener: () => void }> = []
  let exit: (code: number) => void = () => {}
  let hasExited = false
  const exited = new Promise<number>(resolve => {
    exit = code => {
      hasExited = true
      resolve(code)
    }
  })
  const faultListeners: Array<(fault: ProcessFault, error: unknown) => void> = []
  const io: Io = {
    environment,
    in: () => Readable.from([Buffer.from(input)]),
    isTerminal,
    hasLostTerminal: () => hasLostTerminal,
    program: { file: join(import.meta.dirname, '../../dist/cli.js'), flags: [] },
    bufferedBytes: () => 0,
    onFault: listener => faultListeners.push(listener),
    exit,
    out: (text, done) => {
      out += text
      wrote.dispatchEvent(new Event('text'))
      done?.()
    },
    err: text => {
      err += text
      wrote.dispatchEvent(new Event('text'))
    },
    onSignal: (signal, listener) => listeners.push({ signal, listener })
  }
  const signal = (name: string): void => {
    for (const one of listeners) if (one.signal === name) one.listener()
  }
  const code = main(argv, io).finally(() => {
    hasEnded = true
    wrote.dispatchEvent(new Event('text'))
  })
  t.teardown(async () => {
    signal('SIGTERM')
    await code
  })
  return {
    code,
    out: () => out,
    err: () => err,
    log: () =>
      out.split('\n').filter(line => line.startsWith('{')).map(line => JSON.parse(line) as Record<string, unknown>),
    signal,
    exited,
    hasExited: () => hasExited,
    raiseFault: (kind, error) => {
      for (const listener of faultListeners) listener(kind, error)
    },
    waitForOutput: async pattern =>
      await new Promise((resolve, reject) => {
        const look = (): void => {
          const found = pattern.exec(out + err)
          if (found === null && !hasEnded) return
          wrote.removeEventListener('text', look)
          if (found !== null) resolve(found)
          else reject(new Error(`the command ended without ${String(pattern)}:\n${out}${err}`))
        }
        wrote.addEventListener('text', look)
        look()
      })
  }
}

/** Runs a command until it ends. */
export async function runCommand (
  t: Test,
  argv: readonly string[],
  environment: Environment = {}
): Promise<{ code: ExitCode, out: string, err: string }> {
  const command = startCommand(t, argv, { environment })
  return { code: await command.code, out: command.out(), err: command.err() }
}
