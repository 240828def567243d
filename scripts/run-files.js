import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import { at, start } from './ground.js'
import { compiledAt } from './compile-tests.js'

// Gives a timed-out file time to report its open handles before SIGKILL.
const killedAfterMs = 15_000
// Name of a test that test-group.js appends to each file.
const endOfFile = 'end of the test file'

/**
 * Runs groups of test files, each group in one process and without tap's runner, since starting costs more than most
 * tests; onLine gets one TAP stream with a subtest for each file.
 */
export async function runFiles (groups, { jobs, after = [], timeoutSeconds, isCovered, env = {} }, onLine) {
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
  async function work () {
    for (let files = groups.shift(); files !== undefined; files = groups.shift()) {
      await runGroup(files, timeoutSeconds, all, jobs === 1 && after.length === 0, onLine)
    }
  }
  await Promise.all([...Array.from({ length: jobs }, work), ...after.map(ended => ended.then(work))])
}

/** Indents each file's lines as a subtest; buffers them unless isLive, since interleaved TAP cannot be parsed. */
async function runGroup (files, timeoutSeconds, env, isLive, onLine) {
  const flags = ['--enable-source-maps', '--max-semi-space-size=32']
  const { child, ended } = start([process.execPath, ...flags, at('scripts/test-group.js')], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...env, TEST_GROUP: JSON.stringify({ files: files.map(compiledAt), endOfFile, timeoutSeconds }) }
  })
  const lines = createInterface({ input: child.stdout })
  const timer = setTimeout(() => {
    child.kill('SIGKILL')
    // Waits for no more output, since programs that the files have started may still hold it open.
    lines.close()
    child.stdout.destroy()
  }, timeoutSeconds * 1000 + killedAfterMs)
  const waiting = [...files]
  let held = []
  let failed = 0
  let anyFailed = false
  let isEnded = false
  let points = 0
  let plan = 'none'
  let began = performance.now()

  function close (fault) {
    const file = waiting.shift()
    const closing = `${fault === undefined ? 'ok' : 'not ok'} - ${file} # time=${
      (performance.now() - began).toFixed(0)
    }ms`
    for (const line of [...held, closing, ...(fault === undefined ? [] : ['  ---', `  ${fault}`, '  ...'])]) {
      onLine(line)
    }
    anyFailed ||= fault !== undefined
    held = []
    failed = 0
    began = performance.now()
  }

  for await (const line of lines) {
    const [point, not] = /^(not )?ok\b/.exec(line) ?? []
    if (point !== undefined) points++
    if (not !== undefined) failed++
    plan = /^1\.\.(\d+)/.exec(line)?.[1] ?? plan
    if (line.includes(endOfFile) && point !== undefined) {
      // Closes the last file after the exit code is known.
      isEnded = waiting.length === 1
      if (isEnded) continue
      close(failed > 0 ? 'a test failed' : undefined)
      timer.refresh()
    } else if (isLive) onLine(`    ${line}`)
    else held.push(`    ${line}`)
  }
  const { code } = await ended
  clearTimeout(timer)
  // Checks the plan too: a file that exits early has no failed line and may exit with 0.
  if (failed > 0) close('a test failed')
  else if (!isEnded) close('the process ended before the end of the file')
  else if (code !== 0 && !anyFailed) close(`the process ended with exit code ${code}`)
  else if (plan !== `${points}`) close(`${points} tests ran, but the plan is ${plan}`)
  else close(undefined)
  while (waiting.length > 0) close('not run, since a file before it in the same process ended the process')
}
