import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { type AddressInfo } from 'node:net'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { sendRequest } from './support/client.js'
import { auditPackages, runProgram } from './support/run-npm.js'

const root = join(import.meta.dirname, '..')
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { name: string, version: string }
const tarball = `${manifest.name}-${manifest.version}.tgz`
const unreachable = /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENETUNREACH/

/** Copies the checkout into a folder of its own, with the same installed packages. */
function copyOf (dir: string): string {
  mkdirSync(dir)
  for (const name of readdirSync(root)) {
    if (!['node_modules', '.git', '.tap', 'dist', 'coverage'].includes(name)) {
      cpSync(join(root, name), join(dir, name), { recursive: true })
    }
  }
  symlinkSync(join(root, 'node_modules'), join(dir, 'node_modules'))
  return dir
}

// Shares built packages between tests, because building takes longest.
const places = t.testdir()
const packed = pack(t, copyOf(join(places, 'one')), join(places, 'first'))

async function pack (t: Test, from: string, to: string): Promise<string> {
  mkdirSync(to)
  const { code, stderr } = await runProgram('sh', [
    '-c',
    'umask 022 && npm pack --silent --pack-destination "$1"',
    'sh',
    to
  ], {
    cwd: from
  })
  t.equal(code, 0, stderr)
  return join(to, tarball)
}

function digestOf (file: string): string {
  return createHash('sha256').update(readFileSync(file)).digest('hex')
}

/** A registry of one's own with scripted responses. */
async function registry (t: Test, listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
  })
  return `--registry=http://127.0.0.1:${(server.address() as AddressInfo).port}/`
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

t.test('the SBOM names every package that varve runs with digest and licence, and no machine', async t => {
  const folder = copyOf(join(t.testdir(), 'some-folder'))
  const { code, stdout, stderr } = await runProgram('npm', ['run', '--silent', 'release:sbom'], { cwd: folder })
  t.equal(code, 0, stderr)
  const bill = JSON.parse(stdout) as {
    bomFormat: string,
    metadata: { component: { name: string, version: string } },
    dependencies: Array<{ ref: string, dependsOn: string[] }>,
    components: Array<{ name: string, version: string, hashes?: unknown[], licenses?: unknown[] }>
  }
  t.match(bill, { bomFormat: 'CycloneDX', metadata: { component: { name: manifest.name, version: manifest.version } } })
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { version: string, dev?: boolean, devOptional?: boolean }>
  }
  const expected = Object.entries(packages).filter(([path, { dev, devOptional }]) =>
    path !== '' && dev !== true && devOptional !== true
  )
    .map(([path, { version }]) => `${path.replace(/^.*node_modules\//, '')}@${version}`)
  t.same(bill.components.map(({ name, version }) => `${name}@${version}`).sort(), [...new Set(expected)].sort())
  const known = bill.components.map(({ name, version }) => `${name}@${version}`)
  t.same(bill.dependencies.flatMap(({ dependsOn }) => dependsOn).filter(ref => !known.includes(ref)), [])
  t.same(bill.dependencies.map(({ ref }) => ref).sort(), [...known, `${manifest.name}@${manifest.version}`].sort())
  for (const { name, hashes, licenses } of bill.components) t.ok(hashes?.length === 1 && licenses?.length === 1, name)
  for (const place of ['some-folder', homedir(), root, 'registry', '.tgz', 'http://127.', 'localhost']) {
    t.notOk(stdout.includes(place), place)
  }
})

t.test('a release needs a tag equal to the version and an entry in the changelog', async t => {
  const folder = copyOf(join(t.testdir(), 'copy'))
  const notes = async (tag: string, changelog: string): Promise<string> => {
    writeFileSync(join(folder, 'CHANGELOG.md'), changelog)
    const { code, stdout, stderr } = await runProgram(process.execPath, ['scripts/release-notes.js', tag], {
      cwd: folder
    })
    return code === 0 ? stdout : stderr
  }
  const { version } = manifest
  const log =
    `# Changelog\n\n## 99.0.0\n\n- later\n\n## ${version} (2026-01-31)\n\n- one\n- two\n\n## 0.0.1\n\n- before\n`
  t.equal(await notes(`v${version}`, log), '- one\n- two\n')
  t.equal(await notes(`v${version}`, log.replace(' (2026-01-31)', '')), '- one\n- two\n')
  t.match(await notes('v99.0.0', log), /expected v\d/)
  t.match(await notes(version, log), /expected v\d/)
  t.match(await notes('', log), /the tag is missing/)
  for (
    const other of [
      log.replace('(2026-01-31)', '(unreleased)'),
      log.replace(version, `${version}0`),
      log.replace('- one\n- two\n', ''),
      ''
    ]
  ) t.match(await notes(`v${version}`, other), /has no section/)
})

t.test('the package is byte-identical wherever it is built, complete and minimal', async t => {
  const dir = t.testdir()
  const one = await packed
  const two = await pack(t, copyOf(join(dir, 'another-folder')), join(dir, 'second'))
  t.equal(digestOf(two), digestOf(one))

  await runProgram('tar', ['xzf', one, '-C', dir])
  const files = readdirSync(join(dir, 'package'), { recursive: true, withFileTypes: true }).filter(entry =>
    entry.isFile()
  ).map(entry => join(entry.parentPath ?? entry.path, entry.name))
  t.same([...new Set(readdirSync(join(dir, 'package')))].filter(name => name !== 'SECURITY.md').sort(), [
    'CHANGELOG.md',
    'LICENSE',
    'README.md',
    'config',
    'dist',
    'docs',
    'package.json'
  ])
  const filesIn = (folder: string): string[] =>
    readdirSync(join(root, folder), { recursive: true, withFileTypes: true }).filter(entry => entry.isFile())
      .map(entry =>
        join(entry.parentPath ?? entry.path, entry.name).slice(join(root, folder, '/').length).replace(/\.ts$/, '.js')
      )
  const sources = [
    ...filesIn('src').filter(name => !name.endsWith('.md')),
    ...filesIn('sandbox').filter(name => name.endsWith('.js')).map(name => `sandbox/${name}`)
  ].sort()
  t.same(
    files.filter(file => file.startsWith(join(dir, 'package/dist/'))).map(file =>
      file.slice(join(dir, 'package/dist/').length)
    ).filter(name => !/^sandbox\/.*\.d\.ts$/.test(name)).sort(),
    sources
  )
  t.ok(files.some(file => file.endsWith('dist/sandbox/sandbox.d.ts')), 'the types of varve/sandbox')
  for (const file of files) {
    const text = readFileSync(file, 'utf8')
    for (const place of [dir, root, homedir()]) t.notOk(text.includes(place), `${file}: ${place}`)
    t.notMatch(file.slice(join(dir, 'package').length), /test|\.map$|\.varve-built/)
    t.ok(!file.endsWith('.ts') || file.includes('dist/sandbox/'), file)
  }
})

t.test('the package installs for all users and runs from any folder with a bare environment', async t => {
  const dir = t.testdir({ elsewhere: {} })
  const prefix = join(dir, 'prefix')
  const installed = await runProgram('npm', [
    'install',
    '--global',
    '--prefix',
    prefix,
    '--prefer-offline',
    '--no-audit',
    '--no-fund',
    await packed
  ], { cwd: dir })
  if (installed.code !== 0 && unreachable.test(installed.stderr)) {
    t.pass(`the registry could not list packages: ${installed.stderr}`, { skip: true })
    return
  }
  t.equal(installed.code, 0, installed.stderr)
  const bare = { cwd: join(dir, 'elsewhere'), env: { PATH: dirname(process.execPath) } }
  const varve = join(prefix, 'bin/varve')

  t.match(await runProgram(varve, ['--help'], bare), { code: 0, stdout: /varve COMMAND --help/, stderr: '' })
  t.match(await runProgram(varve, ['check', join(prefix, 'lib/node_modules/varve/config/varve.yaml')], bare), {
    code: 0,
    stdout: /^listen: 127\.0\.0\.1:8080\n/,
    stderr: ''
  })
  t.match(await runProgram(varve, ['check', 'missing.yaml'], bare), {
    code: 2,
    stdout: '',
    stderr: /missing\.yaml: no such file \(ENOENT\)/
  })

  const child = spawn(varve, [
    'serve',
    '--sandbox',
    '--listen',
    '127.0.0.1:0',
    '--admin',
    '127.0.0.1:0',
    '--workers',
    '1'
  ], { ...bare, stdio: ['ignore', 'pipe', 'pipe'] })
  t.teardown(() => {
    child.kill('SIGKILL')
  })
  const ending = once(child, 'close')
  let out = ''
  let err = ''
  child.stderr.on('data', bytes => {
    err += String(bytes)
  })
  const url = await new Promise<string>((resolve, reject) => {
    child.stdout.on('data', bytes => {
      out += String(bytes)
      const [, found] = /"url":"([^"]+)","adminUrl":"[^"]+","msg":"listening"/.exec(out) ?? []
      if (found !== undefined && out.includes('upstream is up')) resolve(found)
    })
    child.once('close', () => {
      reject(new Error(`it has ended:\n${out}${err}`))
    })
  })
  const modules = '/v1/accounts/0x1/modules?ledger_version=2000&limit=1'
  t.match(await sendRequest(url, modules), { status: 200, headers: { 'cache-status': /stored/ } })
  t.match(await sendRequest(url, modules), { status: 200, headers: { 'cache-status': 'varve; hit; detail=memory' } })
  child.kill('SIGINT')
  t.same(await ending, [0, null])
  t.equal(err, '')
  t.same(readdirSync(bare.cwd), [], 'it leaves nothing behind')
})
