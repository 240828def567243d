import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { actionOf, pagesIn } from './support/readme/code-blocks.js'
import { PagePorts, PageRunner } from './support/readme/page-runner.js'

const run = promisify(execFile)
const root = join(import.meta.dirname, '..')
const clone = join(t.testdir(), 'clone')
// Clones the repository, so that uncommitted files are missing.
await run('git', ['clone', '--quiet', root, clone])
// Links the packages, because `.ci/run` has just installed them on a clean checkout by the same script.
await run('cp', ['-al', join(root, 'node_modules'), clone])
const places = await PagePorts.find()
const pages = pagesIn(clone).filter(({ blocks }) => blocks.some(({ skipReason }) => skipReason === undefined))

// Runs first: npm start builds for all other blocks.
t.test('on a fresh clone the README\'s first command is npm start', async t => {
  t.match(pages[0], { name: 'README.md', blocks: [{ language: 'sh', text: 'npm start', notRun: undefined }] })
})

for (const { name, blocks } of pages) {
  t.test(`${name}: every block runs as written and prints what the page shows`, async t => {
    const follower = new PageRunner(t, clone, places)
    await follower.startServices(t, blocks)
    for (const block of blocks.filter(({ skipReason }) => skipReason === undefined)) {
      const fault = await follower.runBlock(block)
      t.equal(fault, undefined, `line ${block.line}: ${actionOf(block)} ${block.text.split('\n', 1).join('')}`)
    }
    await follower.close()
  })
}
