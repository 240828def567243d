import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:http2'
import { connect as connectTls } from 'node:tls'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { parse, parseAllDocuments } from 'yaml'
import { startSandbox } from '#sandbox'
import { startVarve } from '../src/app/embedding.js'
import { sendRequest } from './support/client.js'
import { checkoutRoot, readCheckout } from './support/deploy/checkout.js'
import {
  type Manifest,
  applicable,
  hasKubernetesType,
  manifestFolder,
  manifests,
  typeErrorsOf
} from './support/deploy/manifests.js'
import { freePort } from './support/free-port.js'
import { runProgram } from './support/run-program.js'
import { until } from './support/until.js'

const missing = async (program: string): Promise<boolean> => (await runProgram(program, ['--version'])).code !== 0

t.test('docker compose accepts its file, with an upstream of one\'s own and as a demonstration', async t => {
  for (const [upstream, sandbox] of [['', '1'], ['http://host.docker.internal:8081', '']] as const) {
    const { code, stdout, stderr } = await runProgram('docker-compose', ['--profile', 'demo', 'config'], {
      cwd: checkoutRoot,
      env: { ...process.env, VARVE_UPSTREAM: upstream, VARVE_SANDBOX: sandbox }
    })
    t.equal(code, 0, stderr)
    const { services } = parse(stdout) as { services: Record<string, { environment?: Record<string, string | null> }> }
    t.same(Object.keys(services).sort(), ['grafana', 'prometheus', 'redis', 'tls', 'traffic', 'varve'])
    t.match(services['varve']?.environment, { VARVE_UPSTREAM: upstream, VARVE_SANDBOX: sandbox })
  }
  const wrong = join(t.testdir(), 'docker-compose.yml')
  writeFileSync(wrong, readCheckout('docker-compose.yml').replace('mem_limit:', 'mem_limits:'))
  t.not((await runProgram('docker-compose', ['--file', wrong, 'config'])).code, 0, 'an unknown key is found')
})

t.test('every manifest has the keys and value types of its kind, by Kubernetes\' own types', async t => {
  t.same(
    new Set(manifests.filter(({ kind }) => !hasKubernetesType(kind)).map(({ kind }) => kind)),
    new Set([
      'ServiceMonitor',
      'PrometheusRule'
    ]),
    'Prometheus operator kinds have no Kubernetes types'
  )
  t.same(typeErrorsOf(manifests, join(checkoutRoot, '.tap/manifests')), [])
  const wrong = JSON.stringify(manifests).replace('"replicas":2', '"replicas":"2"').replace(
    '"failureThreshold"',
    '"failureTreshold"'
  )
  t.equal(typeErrorsOf(JSON.parse(wrong) as Manifest[], join(checkoutRoot, '.tap/manifests')).length, 2)
})

t.test('kustomize renders every folder to objects of known types, if kubectl is installed', async t => {
  if ((await runProgram('kubectl', ['kustomize', '--help'])).code !== 0) {
    t.pass('there is no kubectl here', { skip: true })
    return
  }
  // Components can be combined in an overlay of one's own; the disk tier excludes only the autoscaler.
  const own = '.tap/overlay'
  mkdirSync(join(checkoutRoot, own), { recursive: true })
  const at = (name: string): string => `../../${manifestFolder}/${name}`
  const components = ['disk', 'redis', 'monitoring', 'ingress'].map(name => at(`components/${name}`))
  writeFileSync(
    join(checkoutRoot, own, 'kustomization.yaml'),
    JSON.stringify({ kind: 'Kustomization', resources: [at('base')], components })
  )
  for (const folder of [...applicable.map(name => join(manifestFolder, name)), own]) {
    const { code, stdout, stderr } = await runProgram('kubectl', ['kustomize', folder], { cwd: checkoutRoot })
    t.match({ code, stderr }, { code: 0, stderr: '' })
    t.match(stdout, /\bvarve-[a-z0-9]{10}\b/, 'a changed configuration has another name, so it is a new rollout')
    const rendered = parseAllDocuments(stdout).map(document => document.toJS() as Manifest)
    t.same(typeErrorsOf(rendered, join(checkoutRoot, '.tap/manifests')), [], folder)
  }
})

t.test('the TLS front of compose brings HTTP/2 to clients, with hits and position', async t => {
  const sandbox = await startSandbox({ blockMs: 0 })
  const varve = await startVarve({
    listen: '127.0.0.1:0',
    admin: { listen: '127.0.0.1:0' },
    upstreams: [{ url: sandbox.url }]
  })
  const [port, healthPort] = [await freePort(), await freePort()]
  const dir = t.testdir({
    Caddyfile: readCheckout('deploy/compose/Caddyfile').replace('varve:8080', new URL(varve.url).host)
      .replace('8443', `${port}\n\tdefault_bind 127.0.0.1`).replace('8081', `${healthPort}`)
  })
  const caddy = spawn('caddy', ['run', '--adapter', 'caddyfile', '--config', join(dir, 'Caddyfile')], {
    stdio: 'ignore',
    env: { PATH: process.env['PATH'], VARVE_DOMAIN: 'localhost', HOME: dir, XDG_DATA_HOME: dir, XDG_CONFIG_HOME: dir }
  })
  t.teardown(async () => {
    caddy.kill('SIGKILL')
    await varve.close()
    await sandbox.close()
  })
  const health = async (): Promise<number> =>
    (await sendRequest(`http://127.0.0.1:${healthPort}`, '/').catch(() => ({ status: 0 }))).status
  await until(async () => await health() === 200, 'Caddy is healthy')
  // Its certificate is issued beside that.
  const hasCertificate = async (): Promise<boolean> => {
    const socket = connectTls({ host: '127.0.0.1', port, servername: 'localhost', rejectUnauthorized: false })
    try {
      await once(socket, 'secureConnect')
      return true
    } catch {
      return false
    } finally {
      socket.destroy()
    }
  }
  await until(hasCertificate, 'Caddy has a certificate')

  const connected = connect(`https://localhost:${port}`, { rejectUnauthorized: false, host: '127.0.0.1' })
  t.teardown(() => {
    connected.destroy()
  })
  for (const expected of ['varve; fwd=uri-miss; fwd-status=200; stored', 'varve; hit; detail=memory']) {
    const request = connected.request({ ':path': '/v1/accounts/0x1/modules?ledger_version=2000&limit=1' })
    const [headers] = await once(request, 'response') as [Record<string, unknown>]
    t.match(headers, { ':status': 200, 'cache-status': expected, 'x-node-chain-id': '4' })
    await text(request)
  }
  t.equal(connected.alpnProtocol, 'h2')
})

t.test('systemd finds no fault with the unit and rates its sandboxing as good, if installed', async t => {
  if (await missing('systemd-analyze')) {
    t.pass('there is no systemd here', { skip: true })
    return
  }
  const dir = t.testdir({ varve: '#!/bin/sh\n' })
  await runProgram('chmod', ['+x', join(dir, 'varve')])
  const file = join(dir, 'varve.service')
  writeFileSync(file, readCheckout('deploy/systemd/varve.service').replace('/usr/local/bin/varve', join(dir, 'varve')))
  t.match(await runProgram('systemd-analyze', ['verify', '--man=no', file]), { code: 0, stderr: '' })
  const { code, stdout, stderr } = await runProgram('systemd-analyze', [
    'security',
    '--offline=true',
    '--threshold=20',
    file
  ])
  t.equal(code, 0, `${stdout}${stderr}`)
  writeFileSync(file, readFileSync(file, 'utf8').replace('ProtectSystem=strict', 'ProtectSystme=strict'))
  t.match((await runProgram('systemd-analyze', ['verify', '--man=no', file])).stderr, /ProtectSystme/)
})

t.test('the demo traffic sends nothing to a varve whose upstream is a real node', async t => {
  const [port, adminPort] = [await freePort(), await freePort()]
  const env = { PATH: process.env['PATH'], VARVE_LISTEN: `127.0.0.1:${port}`, VARVE_ADMIN: `127.0.0.1:${adminPort}` }
  const sandbox = spawn(process.execPath, [join(checkoutRoot, 'dist/cli.js'), 'sandbox', '--listen', '127.0.0.1:0'], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  t.teardown(() => {
    sandbox.kill('SIGKILL')
  })
  let output = ''
  sandbox.stdout.on('data', bytes => {
    output += String(bytes)
  })
  await until(() => /http:\/\/127\.0\.0\.1:\d+/.test(output), 'the node listens')
  const varve = spawn(process.execPath, [join(checkoutRoot, 'dist/cli.js')], {
    stdio: 'ignore',
    env: { ...env, VARVE_UPSTREAM: /http:\/\/127\.0\.0\.1:\d+/.exec(output)?.[0] }
  })
  t.teardown(() => {
    varve.kill('SIGKILL')
  })
  await until(async () => (await sendRequest(`http://127.0.0.1:${adminPort}`, '/readyz')).status === 200, 'ready')
  t.match(
    await runProgram(process.execPath, [
      join(checkoutRoot, 'deploy/compose/traffic.mjs'),
      `http://127.0.0.1:${port}`,
      `http://127.0.0.1:${adminPort}`,
      '5',
      '40'
    ]),
    { code: 0, stdout: /nothing is sent\ntraffic: 0 reads/ }
  )
})
