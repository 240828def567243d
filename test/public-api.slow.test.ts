import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'

interface Declarations {
  declarations: () => Promise<ReadonlyMap<string, string>>
  apiReport: (files: ReadonlyMap<string, string>) => string
}

const root = join(import.meta.dirname, '..')
const committed = join(root, 'test/cases/public-api.txt')
const { declarations, apiReport } = await import(
  pathToFileURL(join(root, 'scripts/declarations.js')).href
) as Declarations
const files = await declarations()

t.test('the exported API is the committed one (RENEW=1 npm test -- test/public-api.slow.test.ts)', async t => {
  const report = apiReport(files)
  if (process.env['RENEW'] === '1') writeFileSync(committed, report)
  t.equal(report, readFileSync(committed, 'utf8'), 'a change needs the version that CONTRIBUTING.md names')
})
