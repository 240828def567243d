#!/usr/bin/env node
import { main } from './cli/main.js'

// `varve check | head` closes the pipe early, which is nobody's mistake.
process.stdout.on('error', () => {})

process.exitCode = await main(process.argv.slice(2), {
  environment: process.env,
  out: text => process.stdout.write(text),
  err: text => process.stderr.write(text),
  isTerminal: process.stdout.isTTY === true,
  onSignal: (signal, listener) => { process.on(signal, listener) }
})
