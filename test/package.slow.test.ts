import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { sendRequest } from './support/client.js'
import { copyCheckout, pack, runProgram } from './support/run-program.js'

const root = join(import.meta.dirname, '..')
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { name: string, version: string }
const unreachable = /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENETUNREACH/

// Shares the package and its installation between tests, because both take long.
const places = t.testdir({ application: { 'package.json': '{"type":"module"}' }, elsewhere: {} })
const checkout = copyCheckout(join(places, 'a-checkout'))
const packed = pack(t, checkout, join(places, 'packed'))
const application = join(places, 'application')
const installed = packed.then(async file =>
  await runProgram('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', file], { cwd: application })
)

t.test('the SBOM names every package that varve runs with digest and licence, and no machine', async t => {
  const { code, stdout, stderr } = await runProgram('npm', ['run', '--silent', 'release:sbom'], { cwd: checkout })
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
  for (const place of ['a-checkout', homedir(), root, 'registry', '.tgz', 'http://127.', 'localhost']) {
    t.notOk(stdout.includes(place), place)
  }
})

t.test('a release needs a tag equal to the version and an entry in the changelog', async t => {
  await packed
  const notes = async (tag: string, changelog: string): Promise<string> => {
    writeFileSync(join(checkout, 'CHANGELOG.md'), changelog)
    const { code, stdout, stderr } = await runProgram(process.execPath, ['scripts/release-notes.js', tag], {
      cwd: checkout
    })
    return code === 0 ? stdout : stderr
  }
  const { version } = manifest
  const log = `# Changelog\n\n## [99.0.0] - 2026-02-01\n\n- later\n\n## [${version}] - 2026-01-31\n\n- one\n- two\n\n` +
    '## [0.0.1] - 2026-01-01\n\n- before\n'
  t.equal(await notes(`v${version}`, log), '- one\n- two\n')
  t.match(await notes('v99.0.0', log), /expected v\d/)
  t.match(await notes(version, log), /expected v\d/)
  t.match(await notes('', log), /the tag is missing/)
  for (
    const other of [
      log.replace('2026-01-31', 'unreleased'),
      log.replace(' - 2026-01-31', ''),
      log.replace(version, `${version}0`),
      log.replace('- one\n- two\n', ''),
      ''
    ]
  ) t.match(await notes(`v${version}`, other), /has no section/)
})

t.test('the package is complete and minimal', async t => {
  const dir = t.testdir()
  await runProgram('tar', ['xzf', await packed, '-C', dir])
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
    ).filter(name => !name.endsWith('.d.ts')).sort(),
    sources
  )
  for (const file of files) {
    const text = readFileSync(file, 'utf8')
    for (const place of [dir, root, homedir()]) t.notOk(text.includes(place), `${file}: ${place}`)
    t.notMatch(file.slice(join(dir, 'package').length), /\btest\/|\.test\.|\.map$|\.varve-built/)
    t.ok(!file.endsWith('.ts') || file.endsWith('.d.ts'), file)
  }
})

/** True if the package is installed; skips the test if the registry cannot be reached. */
async function isInstalled (t: Test): Promise<boolean> {
  const { code, stderr } = await installed
  if (code !== 0 && unreachable.test(stderr)) {
    t.pass(`the registry could not list packages: ${stderr}`, { skip: true })
    return false
  }
  return t.equal(code, 0, stderr)
}

t.test('the installed package runs from any folder with a bare environment', async t => {
  if (!await isInstalled(t)) return
  const bare = { cwd: join(places, 'elsewhere'), env: { PATH: dirname(process.execPath) } }
  const varve = join(application, 'node_modules/.bin/varve')

  t.match(await runProgram(varve, ['--help'], bare), { code: 0, stdout: /varve COMMAND --help/, stderr: '' })
  t.match(await runProgram(varve, ['check', join(application, 'node_modules/varve/config/one-node.yaml')], bare), {
    code: 0,
    stdout: /^listen: 127\.0\.0\.1:8080\n/,
    stderr: ''
  })
  t.match(await runProgram(varve, ['check', 'missing.yaml'], bare), {
    code: 2,
    stdout: '',
    stderr: /missing\.yaml: no such file \(ENOENT\)/
  })

  const { url, stop } = await served(t, varve, [
    'serve',
    '--sandbox',
    '--listen',
    '127.0.0.1:0',
    '--admin',
    '127.0.0.1:0',
    '--workers',
    '1'
  ], bare)
  const modules = '/v1/accounts/0x1/modules?ledger_version=2000&limit=1'
  t.match(await sendRequest(url, modules), { status: 200, headers: { 'cache-status': /stored/ } })
  t.match(await sendRequest(url, modules), { status: 200, headers: { 'cache-status': 'varve; hit; detail=memory' } })
  t.match(await stop('SIGINT'), { code: 0, err: '' })
  t.same(readdirSync(bare.cwd), [], 'it leaves nothing behind')
})

// A program that uses each export with its types; it ends by itself, so nothing stays open.
const program = `
import { startVarve, type RunningVarve, type VarveConfig } from 'varve'
import { startSandbox, type Sandbox } from 'varve/sandbox'

const sandbox: Sandbox = await startSandbox({ blockMs: 0 })
const config: VarveConfig = {
  listen: '127.0.0.1:0',
  admin: { listen: '127.0.0.1:0' },
  workers: 2,
  upstreams: [{ url: sandbox.url, timeoutMs: '5s' }]
}
const logged: string[] = []
const varve: RunningVarve = await startVarve(config, { onLogLine: line => logged.push(line) })
for (const _ of [1, 2]) {
  const response = await fetch(varve.url + '/v1/accounts/0x1/modules?ledger_version=2000&limit=1')
  console.log(response.status, response.headers.get('x-node-chain-id'))
}
console.log((await fetch(varve.adminUrl + '/healthz')).status)
await varve.close()
await sandbox.close()
console.log(new Set(logged.map(line => (JSON.parse(line) as { worker?: number }).worker)).size)
// @ts-expect-error: a mistyped key is found before the program runs
export const mistyped: VarveConfig = { upstream: [] }
`

t.test('in an empty folder npx runs the packed varve, and a program imports both exports', async t => {
  if (!await isInstalled(t)) return
  const sandbox = await served(t, 'npx', ['varve', '--sandbox', '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0'], {
    cwd: application
  })
  t.match(await sendRequest(sandbox.url, '/v1'), { status: 200, headers: { 'x-varve-sandbox': 'true' } })
  t.match(await sandbox.stop('SIGINT'), { out: /"msg":"stopped"\}\n$/, err: '' })

  // The types that a TypeScript program has anyway come from the checkout.
  writeFileSync(join(application, 'main.ts'), program)
  mkdirSync(join(application, 'node_modules/@types'))
  for (const name of ['@types/node', 'undici-types']) {
    symlinkSync(join(root, 'node_modules', name), join(application, 'node_modules', name))
  }
  const compiled = await runProgram(process.execPath, [
    join(root, 'node_modules/typescript-native/bin/tsc'),
    ...['--ignoreConfig', '--strict', '--module', 'nodenext', '--target', 'es2023', '--types', 'node', 'main.ts']
  ], { cwd: application })
  t.match(compiled, { code: 0, stdout: '' })
  t.match(await runProgram(process.execPath, ['main.js'], { cwd: application }), {
    code: 0,
    stdout: '200 4\n200 4\n200\n3\n',
    stderr: ''
  })
})

/** Starts a command that serves, and waits until its upstream is up. */
async function served (
  t: Test,
  command: string,
  args: readonly string[],
  options: { cwd: string, env?: NodeJS.ProcessEnv }
): Promise<
  { url: string, stop: (signal: NodeJS.Signals) => Promise<{ code: number | null, out: string, err: string }> }
> {
  // A process group of its own gets each signal, as that of a terminal does.
  const child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
  const kill = (signal: NodeJS.Signals): void => {
    if (child.pid !== undefined && child.exitCode === null && child.signalCode === null) {
      process.kill(-child.pid, signal)
    }
  }
  t.teardown(() => {
    kill('SIGKILL')
  })
  const ending = once(child, 'close') as Promise<[number | null]>
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
  return {
    url,
    stop: async signal => {
      kill(signal)
      const [code] = await ending
      return { code, out, err }
    }
  }
}
