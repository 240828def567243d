import { join } from 'node:path'
import t from 'tap'
import { blockFaults, pagesIn } from './support/readme/code-blocks.js'
import { PagePorts, PageRunner } from './support/readme/page-runner.js'

t.test('every block of the README and docs is run or checked by npm run readme, or says why not', async t => {
  t.same(pagesIn(join(import.meta.dirname, '..')).flatMap(({ blocks }) => blockFaults(blocks)), [])
})

t.test('each block of docs/record-and-replay.md returns beside another job, with its output', async t => {
  const root = join(import.meta.dirname, '..')
  const blocks =
    pagesIn(root).find(({ name }) => name === 'docs/record-and-replay.md')?.blocks.filter(({ skipReason, language }) =>
      skipReason === undefined && language === 'sh'
    ) ?? []
  const folder = t.testdir({ dist: t.fixture('symlink', join(root, 'dist')) })
  const follower = new PageRunner(t, folder, await PagePorts.find())
  t.equal(blocks.length, 2)
  for (const block of blocks) t.equal(await follower.runBlock(block), undefined, `line ${block.line}`)
})
