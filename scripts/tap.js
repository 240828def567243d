import { rmSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { collected } from './coverage.js'
import { at } from './ground.js'
import { runFiles } from './run-files.js'
import { TapCount } from './tap-count.js'

/** Number of parallel test files: one more than cores, since many tests wait for timers. */
export const jobs = availableParallelism() + 1

const slowest = 10
const detailLines = 40
const mostAtOnce = 3
const linesAtOnce = 12
// Shortens names in repeated reports: a failed property's name contains its counterexamples.
const short = ({ path }) => path.map(name => name.length > 120 ? `${name.slice(0, 120)} ...` : name).join(' > ')

/**
 * Runs groups of files and prints one line for each file, one more at once when each of `after` has ended; returns the
 * counts and passes test comments to onComment.
 */
export async function runTap (
  groups,
  { jobs: atOnce = jobs, after, timeoutSeconds = 60, isCovered = false, env = {}, onComment = () => {} } = {}
) {
  if (isCovered) rmSync(at(collected), { recursive: true, force: true })
  const files = []
  const count = new TapCount(({ name, ok, passed, failed, time }) => {
    files.push({ name, ms: Number.parseFloat(time ?? 0) })
    console.log(`${ok ? '  ok  ' : ' FAIL '} ${name}  ${passed} passed${time === undefined ? '' : `, ${time}`}`)
    // Prints the first failures at once, for readers who follow the run or have only part of its log.
    for (const failure of failed.slice(0, mostAtOnce)) {
      console.log(`        ${short(failure)}\n${detailsText(failure, linesAtOnce)}`)
    }
  })
  await runFiles(groups, { jobs: atOnce, after, timeoutSeconds, isCovered, env }, line => {
    count.line(line)
    const comment = /^ +# (?!Subtest|time=)(.+)$/.exec(line)?.[1]
    if (comment !== undefined) onComment(comment)
  })
  const { passed, failed, skipped } = count
  return { count: { passed, failed, skipped, files } }
}

/** Adds up runs; a run that did not reach its tests has faults only. */
export function sumOf (runs) {
  const counts = runs.map(({ count }) => count).filter(count => count !== undefined)
  return {
    count: {
      passed: counts.reduce((sum, { passed }) => sum + passed, 0),
      failed: counts.flatMap(({ failed }) => failed),
      skipped: counts.flatMap(({ skipped }) => skipped),
      files: counts.flatMap(({ files }) => files)
    },
    faults: runs.flatMap(({ faults = [] }) => faults)
  }
}

/** Prints failures, then the counts as the last line, and sets the exit code. */
export function close ({ count, faults = [] }) {
  const { passed, failed, skipped, files } = count ?? { passed: 0, failed: [], skipped: [], files: [] }
  const reasons = count === undefined ? faults : [...faults, ...doubts(count)]
  if (files.length > slowest) console.log(`\nthe slowest files:\n${slowestOf(files)}`)
  for (const { path, details } of failed) {
    console.log(`\nfailed: ${path.join(' > ')}\n${detailsText({ details }, detailLines)}`)
  }
  if (skipped.length > 0) console.log(`\nskipped: ${skipped.join('; ')}`)
  for (const reason of reasons) console.log(`\nnot passed: ${reason.trimEnd()}`)
  if (failed.length > 1) console.log(`\nfailed tests:\n${failed.map(failure => `  ${short(failure)}`).join('\n')}`)
  console.log(`\n${passed} passed, ${failed.length} failed`)
  process.exitCode = failed.length + reasons.length > 0 ? 1 : 0
}

// An empty run must not pass.
function doubts ({ passed, failed }) {
  return passed + failed.length === 0 ? ['no test was run'] : []
}

function slowestOf (files) {
  return files.toSorted((a, b) => b.ms - a.ms).slice(0, slowest)
    .map(({ name, ms }) => `  ${(ms / 1000).toFixed(1).padStart(6)} s  ${name}`).join('\n')
}

function detailsText ({ details }, most) {
  return details.slice(0, most).map(line => `  ${line}`).join('\n')
}
