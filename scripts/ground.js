import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The folder of the checkout, wherever the command was typed. */
export const root = fileURLToPath(new URL('..', import.meta.url))

/** A path inside the checkout. */
export const at = (...parts) => join(root, ...parts)

/** Progress goes to standard error, so that standard output stays the program's own. */
export function say (sentence) {
  process.stderr.write(`varve: ${sentence}\n`)
}

/** Ends with what went wrong, if anything did, instead of a stack trace. */
export function giveUpOn (fault) {
  if (fault === undefined) return
  say(fault.trimEnd())
  process.exit(1)
}

/** Refuses a Node that the packages were not made for, before anything else can fail less clearly. */
export function requireNode () {
  const [major, minor] = process.versions.node.split('.').map(Number)
  if (major > 20 || (major === 20 && minor >= 18)) return
  giveUpOn(`Node 20.18 or newer is needed, and this is Node ${process.versions.node}.`)
}

/** The digest of some files, names included, so that a renamed file counts as a change. */
export function digestOf (files) {
  const hash = createHash('sha256')
  for (const file of files) hash.update(`${file}\0`).update(readFileSync(at(file))).update('\0')
  return hash.digest('hex')
}

/** The text of a file, or undefined where there is none. */
export function textOf (file) {
  try {
    return readFileSync(at(file), 'utf8')
  } catch {
    return undefined
  }
}

/** The command line of an installed package's program, run by this very Node. */
export function program (file, ...args) {
  return [process.execPath, at('node_modules', file), ...args]
}

const signals = ['SIGINT', 'SIGTERM']
const children = new Set()
let stoppedBy

// A child must not outlive a script that was told to stop, and npm in the middle of its work needs to be told twice.
function stop (signal) {
  stoppedBy = signal
  for (const child of children) child.kill(signal)
  setTimeout(() => {
    for (const child of children) child.kill('SIGKILL')
  }, 2000)
}

/** Starts a program in the checkout, which is stopped when this script is. */
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

/** Runs a program to its end and keeps what it prints for the case that it fails. */
export async function run (commandLine, options = {}) {
  const { child, ended } = start(commandLine, options)
  const printed = []
  for (const stream of [child.stdout, child.stderr]) stream.on('data', bytes => printed.push(bytes))
  const { code, output } = await ended
  return { code, output: output + Buffer.concat(printed).toString() }
}
