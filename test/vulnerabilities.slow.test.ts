import { join } from 'node:path'
import t from 'tap'
import { auditPackages } from './support/run-program.js'

const root = join(import.meta.dirname, '..')

t.test('the registry knows no vulnerability in the packages that varve runs', async t => {
  const audited = await auditPackages(root, '--omit=dev', '--audit-level=low')
  if ('unavailable' in audited) t.pass(`the registry was unavailable: ${audited.unavailable}`, { skip: true })
  else t.same(audited.findings, [])
})
