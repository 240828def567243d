import { readFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { auditPackages } from './support/run-program.js'
import { listening } from './support/stub-upstream.js'

const root = join(import.meta.dirname, '..')

/** A registry of one's own with scripted responses. */
async function registry (t: Test, listener: RequestListener): Promise<string> {
  return `--registry=${await listening(t, createServer(listener))}/`
}

t.test('the registry knows no vulnerability in the packages that varve runs', async t => {
  const audited = await auditPackages(root, '--omit=dev', '--audit-level=low')
  if ('unavailable' in audited) t.pass(`the registry was unavailable: ${audited.unavailable}`, { skip: true })
  else t.same(audited.findings, [])
})

t.test('the audit distinguishes a finding from a registry that fails', async t => {
  const advisory = {
    id: 1,
    url: 'https://advisories.example/1',
    title: 'made up',
    severity: 'low',
    vulnerable_versions: '*',
    cwe: [],
    cvss: { score: 0, vectorString: null }
  }
  const { version } = JSON.parse(readFileSync(join(root, 'node_modules/fastify/package.json'), 'utf8')) as {
    version: string
  }
  // Serves the versions of the reported package, which npm requests next.
  const packument = {
    name: 'fastify',
    'dist-tags': { latest: version },
    versions: { [version]: { name: 'fastify', version } }
  }
  const knows = await registry(t, ({ method }, response) => {
    response.setHeader('content-type', 'application/json').end(
      JSON.stringify(method === 'POST' ? { fastify: [advisory] } : packument)
    )
  })
  const silent = await registry(t, (_request, response) => {
    response.writeHead(405).end()
  })
  const content = await registry(t, (_request, response) => {
    response.setHeader('content-type', 'application/json').end('{}')
  })
  const [finding, none, rejected, gone] = await Promise.all(
    [knows, content, silent, '--registry=http://127.0.0.1:9/'].map(async at =>
      await auditPackages(root, '--omit=dev', '--fetch-retries=0', at)
    )
  )
  t.same(finding, { findings: ['fastify: low'] })
  t.same(none, { findings: [] })
  t.match(rejected, { unavailable: /405/ })
  t.match(gone, { unavailable: /ECONNREFUSED/ })
})
