import { spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { sendRequest } from './support/client.js'
import { manifestFolders, manifestsOf, checkoutRoot, readCheckout } from './support/deploy/manifests.js'
import { typeErrorsOf, hasKubernetesType } from './support/deploy/kubernetes-types.js'
import { freePort } from './support/free-port.js'
import { runProgram } from './support/run-npm.js'
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
    t.same(Object.keys(services).sort(), ['grafana', 'prometheus', 'redis', 'traffic', 'varve'])
    t.match(services['varve']?.environment, { VARVE_UPSTREAM: upstream, VARVE_SANDBOX: sandbox })
  }
  const wrong = join(t.testdir(), 'docker-compose.yml')
  writeFileSync(wrong, readCheckout('docker-compose.yml').replace('mem_limit:', 'mem_limits:'))
  t.not((await runProgram('docker-compose', ['--file', wrong, 'config'])).code, 0, 'an unknown key is found')
})

t.test('every manifest has the keys and value types of its kind, by Kubernetes\' own types', async t => {
  const objects = manifestFolders.flatMap(manifestsOf).map(({ manifest }) => manifest)
  t.same(objects.filter(({ kind }) => !hasKubernetesType(kind)).map(({ kind }) => kind).sort(), [
    'PrometheusRule',
    'ServiceMonitor'
  ], 'Prometheus operator kinds have no Kubernetes types')
  t.same(typeErrorsOf(objects, join(checkoutRoot, '.tap/manifests')), [])
  const wrong = JSON.stringify(objects).replace('"replicas":2', '"replicas":"2"').replace(
    '"failureThreshold"',
    '"failureTreshold"'
  )
  t.equal(typeErrorsOf(JSON.parse(wrong) as typeof objects, join(checkoutRoot, '.tap/manifests')).length, 2)
})

t.test('kustomize renders the folders, if kubectl is installed', async t => {
  if ((await runProgram('kubectl', ['kustomize', '--help'])).code !== 0) {
    t.pass('there is no kubectl here', { skip: true })
    return
  }
  const [varve, monitoring] = await Promise.all(
    manifestFolders.map(async folder => await runProgram('kubectl', ['kustomize', folder], { cwd: checkoutRoot }))
  )
  for (const made of [varve, monitoring]) t.match(made, { code: 0, stderr: '' })
  t.match(varve?.stdout, /^ {8}image: varve:\d+\.\d+\.\d+$/m)
  const [, name = 'none'] =
    /^kind: ConfigMap\nmetadata:\n(?: {2}.*\n)*? {2}name: (varve-[a-z0-9]+)$/m.exec(varve?.stdout ?? '') ?? []
  t.match(varve?.stdout, new RegExp(`configMap:\\n +name: ${name}$`, 'm'), 'a changed configuration is a new rollout')
  t.equal(monitoring?.stdout.match(/^kind: ConfigMap$/gm)?.length, 4)
  t.equal(monitoring?.stdout.match(/^ {4}grafana_dashboard: "1"$/gm)?.length, 4)
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
