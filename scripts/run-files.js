import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import { at, start } from './ground.js'
import { printedAt } from './printed.js'

// Gives a timed-out file time to report its open handles before SIGKILL.
const killedAfterMs = 15_000

/**
 * Runs each test file in its own process, without tap's runner, which doubles the CPU time of short files; onLine gets
 * one TAP stream.
 */
export async function runFiles (files, { jobs, timeoutSeconds, isCovered, env = {} }, onLine) {
  const { NODE_OPTIONS: options = '', ...inherited } = process.env
  const coverage = isCovered ? ` --import=${pathToFileURL(at('scripts/covered.js')).href}` : ''
  const all = {
    ...inherited,
    TAP: '1',
    TAP_CHILD_ID: '1',
    TAP_TIMEOUT: `${timeoutSeconds}`,
    // Applies to child processes of a test too, whose coverage also counts.
    NODE_OPTIONS: `${options}${coverage}`,
    ...env
  }
  const waiting = [...files]
  async function work () {
    for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
      // Buffers the lines of parallel files, since interleaved TAP cannot be parsed.
      const held = []
      const last = await runFile(file, timeoutSeconds, all, jobs === 1 ? onLine : line => held.push(line))
      for (const line of [...held, ...last]) onLine(line)
    }
  }
  await Promise.all(Array.from({ length: jobs }, work))
}

/** Indents the file's lines as a subtest; returns the lines that close it. */
async function runFile (file, timeoutSeconds, env, onLine) {
  const began = performance.now()
  const flags = ['--enable-source-maps', '--max-semi-space-size=32']
  const { child, ended } = start([process.execPath, ...flags, printedAt(file)], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env
  })
  const timer = setTimeout(() => child.kill('SIGKILL'), timeoutSeconds * 1000 + killedAfterMs)
  const lines = []
  for await (const line of createInterface({ input: child.stdout })) {
    lines.push(line)
    onLine(`    ${line}`)
  }
  const { code } = await ended
  clearTimeout(timer)
  const fault = faultOf(lines, code)
  return [
    `${fault === undefined ? 'ok' : 'not ok'} - ${file} # time=${(performance.now() - began).toFixed(0)}ms`,
    ...(fault === undefined ? [] : ['  ---', `  ${fault}`, '  ...'])
  ]
}

/** Checks the plan too: a file that exits early has no failed line and may exit with 0. */
function faultOf (lines, code) {
  const plan = lines.find(line => /^1\.\.\d/.test(line))?.slice(3) ?? 'none'
  const points = lines.filter(line => /^(?:not )?ok\b/.test(line))
  if (code !== 0) return `the process ended with exit code ${code}`
  if (Number.parseInt(plan, 10) !== points.length) return `${points.length} tests ran, but the plan is ${plan}`
  if (points.some(line => line.startsWith('not'))) return 'a test failed'
}
