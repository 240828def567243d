import { join } from 'node:path'
import t from 'tap'
import { blockFaults, pagesIn } from './support/readme/code-blocks.js'

t.test('every block of the README and docs is run or checked by npm run readme, or says why not', async t => {
  t.same(pagesIn(join(import.meta.dirname, '..')).flatMap(({ blocks }) => blockFaults(blocks)), [])
})
