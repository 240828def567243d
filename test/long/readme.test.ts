import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { wayOf } from '../support/readme/blocks.js'
import { Follower } from '../support/readme/follower.js'
import { pagesIn } from '../support/readme/pages.js'
import { Places } from '../support/readme/places.js'

const run = promisify(execFile)
const root = join(import.meta.dirname, '../..')
const clone = join(t.testdir(), 'clone')
// What has not been committed is in nobody's clone.
await run('git', ['clone', '--quiet', root, clone])
const places = await Places.find()
const pages = pagesIn(clone).filter(({ blocks }) => blocks.some(({ notRun }) => notRun === undefined))

// It is what installs and builds for all of them.
t.test('on a fresh clone the README\'s first command is npm start', async t => {
  t.match(pages[0], { name: 'README.md', blocks: [{ language: 'sh', text: 'npm start', notRun: undefined }] })
})

for (const { name, blocks } of pages) {
  t.test(`${name}: every block runs as it stands, and prints what the page shows`, async t => {
    const follower = new Follower(t, clone, places)
    await follower.surround(t, blocks)
    for (const block of blocks.filter(({ notRun }) => notRun === undefined)) {
      const fault = await follower.follow(block)
      t.equal(fault, undefined, `line ${block.line}: ${wayOf(block)} ${block.text.split('\n', 1).join('')}`)
    }
    await follower.leave()
  })
}
