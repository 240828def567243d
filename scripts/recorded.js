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

// Stored in node_modules, so that deleting the packages also deletes the record.
const folder = 'node_modules/.cache/varve/fast'
const record = `${folder}/passed.json`

/** Folder with the coverage of the last fast tests. */
export const fastCoverage = `${folder}/coverage`

/** Computes a digest of all files that git does not ignore, and of Node.js; undefined without git. */
export function treeDigest () {
  const names = namesOf()
  if (names === undefined) return
  const hash = createHash('sha256').update(`${process.version} ${process.platform} ${process.arch}\0`)
  for (const name of names) hash.update(`${name}\0`).update(contentOf(at(name))).update('\0')
  return hash.digest('hex')
}

/** Deletes the last record before a new run, so that an interrupted run leaves none. */
export function deleteRecord () {
  rmSync(at(folder), { recursive: true, force: true })
}

/** Stores coverage always, and the count only if all tests passed and the tree did not change meanwhile. */
export function recordResult (tree, { passed, skipped, failed, files }, isPassed) {
  mkdirSync(at(folder), { recursive: true })
  if (existsSync(at(collected))) renameSync(at(collected), at(fastCoverage))
  if (isPassed && tree !== undefined && tree === treeDigest()) {
    writeFileSync(at(record), JSON.stringify({ tree, count: { passed, skipped, failed, files } }))
  }
}

/** Returns the count of the fast tests if they passed on exactly this tree. */
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

// Tracked files may be deleted in the working tree, and links may point outside it.
function contentOf (path) {
  const stats = lstatSync(path, { throwIfNoEntry: false })
  if (stats === undefined) return 'missing'
  return stats.isSymbolicLink() ? readlinkSync(path) : stats.isFile() ? readFileSync(path) : 'no file'
}
