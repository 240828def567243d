import { readFileSync } from 'node:fs'
import { at, giveUpOn } from './ground.js'

const [tag = ''] = process.argv.slice(2)
const { version } = JSON.parse(readFileSync(at('package.json'), 'utf8'))

if (tag !== `v${version}`) {
  giveUpOn(
    `the tag ${tag === '' ? 'is missing' : `is ${tag}`}, but the package version is ${version}: expected v${version}`
  )
}
const notes = notesOf(readFileSync(at('CHANGELOG.md'), 'utf8'), version)
if (notes === undefined) {
  giveUpOn(`CHANGELOG.md has no section "## [${version}] - YYYY-MM-DD" with text: date the one that is unreleased`)
}
process.stdout.write(`${notes}\n`)

/** Returns the changelog section of a version; "unreleased" instead of a date does not match. */
function notesOf (changelog, version) {
  const section = changelog.split(/^## /m).slice(1).find(part =>
    /^\[(\S+)\] - \d{4}-\d{2}-\d{2}\s*$/.exec(firstLineOf(part))?.[1] === version
  )
  return section?.slice(firstLineOf(section).length).trim() || undefined
}

function firstLineOf (text) {
  return text.split('\n', 1)[0]
}
