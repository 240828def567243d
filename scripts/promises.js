import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { execFileSync } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parse } from 'yaml'
import { at, giveUpOn, root, textOf } from './ground.js'
import { makeReady } from './ready.js'
import { singly } from './suites.js'

// Bounds a file that what is broken makes wait for ever.
const timeoutSeconds = 240

/** Reads the promises: each has a way to break it, and the test files that must notice. */
export const promises = () => parse(textOf('test/promises.yaml'))

/** Returns a source text with the promise broken; throws unless the text to replace stands there once. */
export function broken (source, { promise, replace, by }) {
  const parts = source.split(replace.trimEnd())
  if (parts.length !== 2) throw new Error(`${promise}: expected its text once, found it ${parts.length - 1} times`)
  return parts.join(by.trimEnd())
}

if (process.argv[1] === import.meta.filename) {
  const words = process.argv.slice(2).join(' ')
  const chosen = promises().filter(({ promise, of }) => promise.includes(words) || of.includes(words))
  giveUpOn((await makeReady())[0])
  const copy = copyTree()
  let missed = 0
  try {
    const { compileTests } = await scriptOf(copy, 'compile-tests')
    throwIfAny(await compileTests())
    for (const promise of chosen) {
      const noticed = await whatNotices(copy, promise)
      if (noticed === undefined) missed++
      console.log(`  ${noticed === undefined ? 'MISSED' : 'caught'}  ${promise.of.join(', ')}: ${promise.promise}`)
      if (noticed !== undefined) console.log(`          ${noticed}`)
    }
  } finally {
    rmSync(copy, { recursive: true, force: true })
  }
  console.log(`\n${chosen.length - missed} passed, ${missed} failed`)
  process.exitCode = missed > 0 || chosen.length === 0 ? 1 : 0
}

// Breaks nothing in the checkout, where an interrupted run would leave it broken.
function copyTree () {
  const copy = mkdtempSync(join(tmpdir(), 'varve-promises-'))
  const names = execFileSync('git', ['ls-files', '-coz', '--exclude-standard'], { cwd: root, maxBuffer: 1 << 28 })
  for (const name of names.toString().split('\0').filter(name => name !== '')) cpSync(at(name), join(copy, name))
  symlinkSync(at('node_modules'), join(copy, 'node_modules'))
  return copy
}

/** Breaks a promise in the copy; returns the assertion that fails, or undefined if no test notices. */
async function whatNotices (copy, promise) {
  const file = join(copy, promise.in)
  const source = readFileSync(file, 'utf8')
  // Scripts of the copy compile and run its files.
  const { compileChanged } = await scriptOf(copy, 'compile-tests')
  const { runTap } = await scriptOf(copy, 'tap')
  writeFileSync(file, broken(source, promise))
  try {
    throwIfAny(await compileChanged(promise.in))
    for (const test of promise.caughtBy) {
      // Ends at the first failure, since what is broken may make other tests wait for ever. Parallel tests print no
      // assertion then, so they run again to their end.
      for (const TAP_BAIL of ['1', '0']) {
        const { count: { failed } } = await runTap(singly([test]), { jobs: 1, timeoutSeconds, env: { TAP_BAIL } })
        if (failed.length === 0) break
        const noticed = failed.map(assertionOf).find(text => text !== undefined)
        if (noticed !== undefined) return noticed
      }
    }
  } finally {
    writeFileSync(file, source)
    throwIfAny(await compileChanged(promise.in))
  }
}

// A file that crashes or hangs says nothing about the promise.
function assertionOf ({ path, details }) {
  const [, file, line] = /fileName: (\S+)\n +lineNumber: (\d+)/.exec(details.join('\n')) ?? []
  return file === undefined ? undefined : `${path.at(-1).slice(0, 100)} (${file}:${line})`
}

// Throws, so that the copy is removed.
function throwIfAny (fault) {
  if (fault !== undefined) throw new Error(fault)
}

async function scriptOf (copy, name) {
  return await import(pathToFileURL(join(copy, 'scripts', `${name}.js`)).href)
}
