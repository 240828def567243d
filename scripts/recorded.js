import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  writeFileSync
} from 'node:fs'
import { collected } from './coverage.js'
import { at, root, textOf } from './ground.js'

// Inside node_modules, so that the record disappears together with the packages that the tests ran with.
const folder = 'node_modules/.cache/varve/fast'
const record = `${folder}/passed.json`

/** What the processes of the last run of the fast tests covered. */
export const fastCoverage = `${folder}/coverage`

/**
 * The digest of every file of the checkout that git does not ignore, and of the Node that runs; undefined without git.
 */
export function treeDigest () {
  const names = namesOf()
  if (names === undefined) return
  const hash = createHash('sha256').update(`${process.version} ${process.platform} ${process.arch}\0`)
  for (const name of names) hash.update(`${name}\0`).update(contentOf(at(name))).update('\0')
  return hash.digest('hex')
}

/** Starts a new record: what an earlier run covered or passed no longer counts. */
export function forgetResult () {
  rmSync(at(folder), { recursive: true, force: true })
}

/** Keeps what the tests covered and, where all of them passed on the tree, that they did. */
export function recordResult (tree, { passed, skipped, failed, files }, isPassed) {
  mkdirSync(at(folder), { recursive: true })
  if (existsSync(at(collected))) renameSync(at(collected), at(fastCoverage))
  if (isPassed && tree !== undefined && tree === treeDigest()) {
    writeFileSync(at(record), JSON.stringify({ tree, count: { passed, skipped, failed, files } }))
  }
}

/** The count of the fast tests, if they passed on exactly this tree. */
export function recordedResult () {
  const { tree, count } = JSON.parse(textOf(record) ?? '{}')
  return tree !== undefined && tree === treeDigest() && existsSync(at(fastCoverage)) ? count : undefined
}

function namesOf () {
  try {
    const listed = execFileSync('git', ['ls-files', '-coz', '--exclude-standard'], {
      cwd: root,
      stdio: ['ignore', 'pipe', 'ignore'],
      maxBuffer: 1 << 28
    })
    return [...new Set(listed.toString().split('\0').filter(name => name !== ''))].sort()
  } catch {
    return undefined
  }
}

// A file that git tracks may be deleted in the working tree, and a link may lead anywhere.
function contentOf (path) {
  const stats = lstatSync(path, { throwIfNoEntry: false })
  if (stats === undefined) return 'missing'
  return stats.isSymbolicLink() ? readlinkSync(path) : stats.isFile() ? readFileSync(path) : 'no file'
}
