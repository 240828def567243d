import { availableParallelism } from 'node:os'
import { createInterface } from 'node:readline'
import { program, start } from './ground.js'
import { TapCount } from './tap-count.js'

/** One more than there are cores: many tests wait for a time to pass. */
export const jobs = `--jobs=${availableParallelism() + 1}`

const slowest = 10
const detailLines = 40
const mostAtOnce = 3
const linesAtOnce = 12
// A property that failed has its counterexamples in its name: in full once, then the beginning will do.
const short = ({ path }) => path.map(name => name.length > 120 ? `${name.slice(0, 120)} ...` : name).join(' > ')
// How tap started a test file is the same for all of them, and says nothing of why this one failed.
const commonplace = /^(?:stdio|cwd|externalID|command|args|jobId):|^ {2}- /

/**
 * Runs test files, printing a line for each as it ends; returns the counts and tap's own exit code. Comments of tests
 * go to onComment.
 */
export async function runTap (args, { env = {}, onComment = () => {} } = {}) {
  // There is a compiler only once the packages are installed.
  const { printAll } = await import('./printed.js')
  printAll()
  const files = []
  const count = new TapCount(({ name, ok, passed, failed, time }) => {
    files.push({ name, ms: Number.parseFloat(time ?? 0) })
    console.log(`${ok ? '  ok  ' : ' FAIL '} ${name}  ${passed} passed${time === undefined ? '' : `, ${time}`}`)
    // All of it is told at the end; who watches, or has a part of the output alone, need not wait for that.
    for (const failure of failed.slice(0, mostAtOnce)) {
      console.log(`        ${short(failure)}\n${tellingOf(failure, linesAtOnce)}`)
    }
  })
  const { child, ended } = start(program('tap/dist/esm/run.mjs', 'run', '--reporter=tap', ...args), {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, ...env }
  })
  for await (const line of createInterface({ input: child.stdout })) {
    count.line(line)
    const comment = /^ +# (?!Subtest|time=)(.+)$/.exec(line)?.[1]
    if (comment !== undefined) onComment(comment)
  }
  const { passed, failed, skipped } = count
  return { count: { passed, failed, skipped, files }, code: (await ended).code }
}

/** The sum of several runs; one that did not reach its tests has faults alone. */
export function sumOf (runs) {
  const counts = runs.map(({ count }) => count).filter(count => count !== undefined)
  return {
    count: {
      passed: counts.reduce((sum, { passed }) => sum + passed, 0),
      failed: counts.flatMap(({ failed }) => failed),
      skipped: counts.flatMap(({ skipped }) => skipped),
      files: counts.flatMap(({ files }) => files)
    },
    code: runs.reduce((worst, { code = 0 }) => worst || code, 0),
    faults: runs.flatMap(({ faults = [] }) => faults)
  }
}

/** Prints what went wrong, then the counts on the last line, and sets the exit code. */
export function close ({ count, code, faults = [] }) {
  const { passed, failed, skipped, files } = count ?? { passed: 0, failed: [], skipped: [], files: [] }
  const reasons = count === undefined ? faults : [...faults, ...doubts(count, code)]
  if (files.length > slowest) console.log(`\nthe slowest files:\n${slowestOf(files)}`)
  for (const { path, details } of failed) {
    console.log(`\nfailed: ${path.join(' > ')}\n${tellingOf({ path, details }, detailLines)}`)
  }
  if (skipped.length > 0) console.log(`\nskipped: ${skipped.join('; ')}`)
  for (const reason of reasons) console.log(`\nnot passed: ${reason.trimEnd()}`)
  if (failed.length > 1) console.log(`\nfailed tests:\n${failed.map(failure => `  ${short(failure)}`).join('\n')}`)
  console.log(`\n${passed} passed, ${failed.length} failed`)
  process.exitCode = failed.length + reasons.length > 0 ? 1 : 0
}

// A runner that failed for a reason of its own is not a success, and neither is one that ran nothing.
function doubts ({ passed, failed }, code) {
  if (passed + failed.length === 0) return ['no test was run']
  if (code !== 0 && failed.length === 0) return [`tap ended with exit code ${code}`]
  return []
}

function slowestOf (files) {
  return files.toSorted((a, b) => b.ms - a.ms).slice(0, slowest)
    .map(({ name, ms }) => `  ${(ms / 1000).toFixed(1).padStart(6)} s  ${name}`).join('\n')
}

function tellingOf ({ path, details }, most) {
  const telling = path.length > 1 ? details : details.filter(line => !commonplace.test(line))
  return telling.slice(0, most).map(line => `  ${line}`).join('\n')
}
