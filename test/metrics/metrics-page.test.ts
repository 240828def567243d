import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { metricsPage } from '../support/metrics-page.js'

const file = join(import.meta.dirname, '../../docs/metrics.md')
const printedSection = /(?<=<!-- printed from src\/metrics\/definitions\.ts: begins -->\n)[^]*(?=<!-- ends -->)/

t.test('docs/metrics.md matches the source (RENEW=1 npm test -- test/metrics/metrics-page.test.ts)', async t => {
  if (process.env['RENEW'] === '1') {
    writeFileSync(
      file,
      readFileSync(file, 'utf8').replace(printedSection, () => metricsPage())
    )
  }
  t.equal(printedSection.exec(readFileSync(file, 'utf8'))?.[0], metricsPage())
})
