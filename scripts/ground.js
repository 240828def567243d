import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Root folder of the checkout, independent of the working directory. */
export const root = fileURLToPath(new URL('..', import.meta.url))

/** Resolves a path below the root of the checkout. */
export const at = (...parts) => join(root, ...parts)

/** Prints progress to stderr, so that stdout contains only the program's output. */
export function say (sentence) {
  process.stderr.write(`varve: ${sentence}\n`)
}

/** Exits with an error message instead of a stack trace; undefined means no error. */
export function giveUpOn (fault) {
  if (fault === undefined) return
  say(fault.trimEnd())
  process.exit(1)
}

/** Rejects unsupported Node.js versions first, since later errors would be harder to understand. */
export function requireNode () {
  const [major, minor] = process.versions.node.split('.').map(Number)
  if (major > 20 || (major === 20 && minor >= 18)) return
  giveUpOn(`expected Node.js 20.18 or newer, found ${process.versions.node}`)
}

/** Computes a digest of files and their names, so that a rename counts as a change. */
export function digestOf (files) {
  const hash = createHash('sha256')
  for (const file of files) hash.update(`${file}\0`).update(readFileSync(at(file))).update('\0')
  return hash.digest('hex')
}

/** Reads a file; returns undefined if it cannot be read. */
export function textOf (file) {
  try {
    return readFileSync(at(file), 'utf8')
  } catch {
    return undefined
  }
}

/** Returns the command line of an installed package's program, run by the current Node.js. */
export function program (file, ...args) {
  return [process.execPath, at('node_modules', file), ...args]
}

const signals = ['SIGINT', 'SIGTERM']
const children = new Set()
let stoppedBy

// Stops children with their parent; sends SIGKILL after 2 s, since npm can ignore the first signal.
function stop (signal) {
  stoppedBy = signal
  for (const child of children) child.kill(signal)
  setTimeout(() => {
    for (const child of children) child.kill('SIGKILL')
  }, 2000)
}

/** Starts a program in the checkout and stops it when this script is stopped. */
export function start ([command, ...args], options = {}) {
  const child = spawn(command, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'], ...options })
  if (children.size === 0) { for (const signal of signals) process.on(signal, stop) }
  children.add(child)
  const ended = new Promise(resolve => {
    function end (result) {
      children.delete(child)
      if (children.size === 0) { for (const signal of signals) process.off(signal, stop) }
      if (stoppedBy === undefined) resolve(result)
      else if (children.size === 0) process.exit(128 + constants.signals[stoppedBy])
    }
    child.once('error', error => end({ code: 127, output: error.message }))
    child.once('close', code => end({ code: code ?? 1, output: '' }))
  })
  return { child, ended }
}

/** Runs a program until it exits; captures its output for error messages. */
export async function run (commandLine, options = {}) {
  const { child, ended } = start(commandLine, options)
  const printed = []
  for (const stream of [child.stdout, child.stderr]) stream.on('data', bytes => printed.push(bytes))
  const { code, output } = await ended
  return { code, output: output + Buffer.concat(printed).toString() }
}
