import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { json } from 'node:stream/consumers'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { type ProgramResult, copyCheckout, digestOf, pack, runProgram } from './support/run-program.js'
import { listening } from './support/stub-upstream.js'

const root = join(import.meta.dirname, '..')
const read = (...path: string[]): string => readFileSync(join(root, ...path), 'utf8')
const { name, version } = JSON.parse(read('package.json')) as { name: string, version: string }
const { jobs } = parse(read('.github/workflows/release.yml')) as {
  jobs: Record<string, { steps: ReadonlyArray<{ run?: string, env?: Record<string, string> }> }>
}
const repository = 'https://forge.example/owner/Varve'
const tag = `v${version}`

// Steps that other runs cover, or that would change this machine.
const leftOut = ['git config --global', 'npm ci', 'npm test', 'npm run ci']

/** Runs the shell steps of a job as the workflow's runner does; stops at the first that fails. */
async function runJob (
  job: string,
  cwd: string,
  env: NodeJS.ProcessEnv,
  edit = (script: string): string => script
): Promise<ProgramResult> {
  const scripts = jobs[job]?.steps.flatMap(({ run }) => run === undefined ? [] : [edit(run)]) ?? []
  let last: ProgramResult = { code: 1, stdout: '', stderr: `${job} has no shell step` }
  for (const script of scripts.filter(script => !leftOut.some(start => script.startsWith(start)))) {
    last = await runProgram('bash', ['-e', '-o', 'pipefail', '-c', script], { cwd, env: { ...process.env, ...env } })
    if (last.code !== 0) break
  }
  return last
}

/** Copies the checkout and does what CONTRIBUTING.md asks for before the tag. */
function copyToRelease (dir: string): string {
  const copy = copyCheckout(join(dir, 'checkout'))
  const changelog = read('CHANGELOG.md')
  writeFileSync(
    join(copy, 'CHANGELOG.md'),
    changelog.replace(`## [${version}] - unreleased`, `## [${version}] - 2026-01-31`)
  )
  return copy
}

const dir = t.testdir({ temp: {} })
const checkout = copyToRelease(dir)
const runner = {
  GITHUB_SERVER_URL: new URL(repository).origin,
  GITHUB_REPOSITORY: new URL(repository).pathname.slice(1),
  GITHUB_REF_NAME: tag,
  GITHUB_OUTPUT: join(dir, 'output'),
  RUNNER_TEMP: join(dir, 'temp')
}
const folder = join(runner.RUNNER_TEMP, 'release')

t.test('the package is byte-identical wherever it is built', async t => {
  const dir = t.testdir()
  const one = await pack(t, copyCheckout(join(dir, 'one')), join(dir, 'first'))
  const two = await pack(t, copyCheckout(join(dir, 'another-folder')), join(dir, 'second'))
  t.equal(digestOf(two), digestOf(one))
})

t.test('the job that packs leaves package, SBOM, digests and notes, with the repository\'s address', async t => {
  const done = await runJob('package', checkout, runner)
  t.equal(done.code, 0, `${done.stdout}${done.stderr}`.slice(-2000))
  t.same(readdirSync(folder).sort(), ['SHA256SUMS', 'notes.md', 'sbom.cdx.json', `${name}-${version}.tgz`])
  t.equal(readFileSync(runner.GITHUB_OUTPUT, 'utf8'), `folder=${folder}\n`)
  t.match(readFileSync(join(folder, 'notes.md'), 'utf8'), /^The first release\.\n\n### Security\n/)
  await runProgram('tar', ['xzf', join(folder, `${name}-${version}.tgz`), '-C', dir])
  const packed = (...path: string[]): string => readFileSync(join(dir, 'package', ...path), 'utf8')
  t.match(JSON.parse(packed('package.json')), {
    homepage: `${repository}/blob/${tag}/`,
    bugs: { url: `${repository}/issues` },
    repository: { type: 'git', url: `git+${repository}.git` }
  })
  t.match(packed('config/prometheus-rules.yml'), `${repository}/blob/${tag}/docs/runbooks.md#`)
  t.notMatch(packed('config/prometheus-rules.yml'), 'varve.example')
  t.match(packed('README.md'), `$ npx ${name} --upstream`)
  t.match(packed('README.md'), ' ghcr.io/owner/varve serve', 'the image that the workflow pushes')
})

t.test('the released package installs for all users', async t => {
  const prefix = join(dir, 'prefix')
  const flags = ['--prefer-offline', '--no-audit', '--no-fund']
  const file = join(folder, `${name}-${version}.tgz`)
  const installed = await runProgram('npm', ['install', '--global', '--prefix', prefix, ...flags, file], { cwd: dir })
  t.equal(installed.code, 0, installed.stderr)
  t.match(await runProgram(join(prefix, 'bin/varve'), ['--help']), { code: 0, stdout: /varve COMMAND --help/ })
})

t.test('the job that publishes sends exactly the checked package to the registry', async t => {
  const received: Array<{ method: string | undefined, url: string | undefined, body: unknown }> = []
  const server = createServer((request, response) => {
    json(request).catch(() => undefined).then(body => {
      received.push({ method: request.method, url: request.url, body })
      response.writeHead(request.method === 'PUT' ? 201 : 404, { 'content-type': 'application/json' }).end('{}')
    }, () => {})
  })
  const { host, href } = new URL(await listening(t, server))
  const userConfig = join(dir, 'npmrc')
  writeFileSync(userConfig, `//${host}/:_authToken=made-up\n`)
  // The environment is stronger than every file, so nothing leaves this machine.
  const env = { ...runner, npm_config_registry: href, npm_config_userconfig: userConfig }
  // Provenance needs the identity of a real workflow run.
  const done = await runJob('publish', folder, env, script => script.replace(' --provenance', ''))
  t.equal(done.code, 0, done.stderr.slice(-2000))
  const [sent, ...more] = received.filter(({ method }) => method === 'PUT')
  t.same(more, [])
  const integrity = `sha512-${
    createHash('sha512').update(readFileSync(join(folder, `${name}-${version}.tgz`))).digest('base64')
  }`
  t.match(sent, {
    url: `/${name}`,
    body: { name, access: 'public', 'dist-tags': { latest: version }, versions: { [version]: { dist: { integrity } } } }
  })
})

t.test('the job that builds the site makes pages below its base, with links to the repository', async t => {
  const done = await runJob('site', checkout, { ...runner, SITE_BASE: '/Varve/' })
  if (done.code !== 0 && /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENETUNREACH/.test(done.stderr)) {
    t.pass(`the registry could not list packages: ${done.stderr}`, { skip: true })
    return
  }
  t.equal(done.code, 0, `${done.stdout}${done.stderr}`.slice(-2000))
  const page = (name: string): string => readFileSync(join(checkout, 'site/dist', name), 'utf8')
  t.match(page('index.html'), 'href="/Varve/how-it-works"')
  t.match(page('index.html'), `${repository}/blob/${tag}/CONTRIBUTING.md`)
  const [, linked = ''] = /\((how-it-works\.md)\)/.exec(page('llms.txt')) ?? []
  t.match(page(linked), '# How it works', 'llms.txt links to sources of pages')
})
