#!/usr/bin/env node
import { isatty } from 'node:tty'

// `varve check | head` closes the pipe early, which is nobody's mistake.
process.stdout.on('error', () => {})
// Nor is it varve's end when nobody hears what it complains of.
process.stderr.on('error', () => {})

const isTerminal = process.stdout.isTTY === true

try {
  const { main } = await import('./cli/main.js')
  process.exitCode = await main(process.argv.slice(2), {
    environment: process.env,
    in: () => process.stdin,
    out: (text, done) => {
      process.stdout.write(text, done)
    },
    bufferedBytes: () => process.stdout.writableLength,
    err: text => {
      process.stderr.write(text)
    },
    isTerminal,
    // What hangs up is no terminal any more.
    hasLostTerminal: () => isTerminal && !isatty(process.stdout.fd),
    program: { file: import.meta.filename, flags: process.execArgv },
    onSignal: (signal, listener) => {
      process.on(signal, listener)
    },
    onFault: listener => {
      process.on('unhandledRejection', reason => {
        listener('rejection', reason)
      })
      process.on('uncaughtException', error => {
        listener('exception', error)
      })
    },
    exit: code => {
      process.exit(code)
    }
  })
} catch (error) {
  // What cannot even be read from disk, as where too few files may be open, has nobody yet who could say it better.
  process.stderr.write(`varve: cannot start: ${(error as Error).message}\n`)
  process.exitCode = 1
}

// What a library left behind, such as a timer for a connection that is gone, must not keep a process alive whose work
// is done.
setTimeout(() => {
  process.exit()
}, 1000).unref()
