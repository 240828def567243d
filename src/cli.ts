#!/usr/bin/env node
import { isatty } from 'node:tty'

// Ignores errors of standard output: `varve check | head` closes the pipe early, which is no error.
process.stdout.on('error', () => {})
// Ignores errors of standard error, whose end must not end varve.
process.stderr.on('error', () => {})

const isTerminal = process.stdout.isTTY === true

try {
  const { main } = await import('./cli/main.js')
  process.exitCode = await main(process.argv.slice(2), {
    environment: process.env,
    in: () => process.stdin,
    out: (text, done) => process.stdout.write(text, done),
    bufferedBytes: () => process.stdout.writableLength,
    err: text => process.stderr.write(text),
    isTerminal,
    // Detects a closed terminal, whose descriptor is no TTY any more.
    hasLostTerminal: () => isTerminal && !isatty(process.stdout.fd),
    program: { file: import.meta.filename, flags: process.execArgv },
    onSignal: (signal, listener) => process.on(signal, listener),
    onFault: listener => {
      process.on('unhandledRejection', reason => listener('rejection', reason))
      process.on('uncaughtException', error => listener('exception', error))
    },
    exit
  })
} catch (error) {
  // Loading a module can fail, for example for lack of file descriptors, before any other error handler exists.
  process.stderr.write(`varve: cannot start: ${(error as Error).message}\n`)
  process.exitCode = 1
}

// Exits although a library left a handle open, such as a timer for a closed connection.
setTimeout(exit, 1000).unref()

/** Ends the process now. Node.js waits for file operations and DNS look-ups, so one that never ends needs a kill. */
function exit (code?: number): void {
  const hasPending = (): boolean =>
    process.getActiveResourcesInfo().some(name => name.startsWith('FSReq') || name === 'GetAddrInfoReqWrap')
  if (!hasPending()) process.exit(code)
  setTimeout(() => {
    if (hasPending()) process.kill(process.pid, 'SIGKILL')
    process.exit(code)
  }, 250)
}
