import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, lstatSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { sendRequest } from '../support/client.js'
import { commandOf, lastInstruction, pairsOf, readStages } from '../support/deploy/dockerfile.js'
import { buildImage } from '../support/deploy/build-image.js'
import { manifestFolders, manifestsOf, checkoutRoot, readCheckout } from '../support/deploy/manifests.js'
import { typeErrorsOf, hasKubernetesType } from '../support/deploy/kubernetes-types.js'
import { freePort } from '../support/free-port.js'
import { type ProgramResult, runProgram } from '../support/run-npm.js'
import { until } from '../support/until.js'

const isRoot = process.getuid?.() === 0
const missing = async (program: string): Promise<boolean> => (await runProgram(program, ['--version'])).code !== 0
// Fails if the value is missing: an engine would have it at once, and the test takes it from its run.
const whole = <T>(what: T | undefined, name: string): T => {
  if (what === undefined) throw new Error(`there is no ${name}`)
  return what
}

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

t.test('systemd finds no fault with the unit and rates it as well sandboxed, if installed', async t => {
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

t.test(
  'the image built by the Dockerfile has the package, runs as nobody, is healthy, and drains',
  { timeout: 300_000 },
  async t => {
    const stages = readStages(readCheckout('Dockerfile'))
    const last = whole(stages.at(-1), 'stage')
    const dir = mkdtempSync(join(tmpdir(), 'varve-image-'))
    t.teardown(() => {
      rmSync(dir, { recursive: true, force: true })
    })
    await runProgram('chmod', ['755', dir])
    const { image } = await buildImage(stages, dir)
    await holdsWhatThePackageHolds(t, join(image, 'app'))
    t.same(readdirSync(join(image, 'usr/local/bin')).sort(), ['node', 'varve'], 'no npm, nor anything else')
    // Removes write permission as if root owned the files: the user of this test may own them.
    await runProgram('chmod', ['-R', 'a-w', image])
    t.teardown(async () => {
      await runProgram('chmod', ['-R', 'u+w', dir])
    })
    t.equal((await runProgram('find', [image, '-not', '-perm', '-a+r'])).stdout, '', 'every user may read all of it')

    const [port, adminPort] = [await freePort(), await freePort()]
    const env = {
      ...pairsOf(lastInstruction(last, 'ENV')),
      VARVE_SANDBOX: '1',
      VARVE_LISTEN: `127.0.0.1:${port}`,
      VARVE_ADMIN: `0.0.0.0:${adminPort}`,
      PATH: join(image, 'usr/local/bin')
    }
    const health = async (): Promise<ProgramResult> => {
      const [node = '', ...rest] = commandOf(lastInstruction(last, 'HEALTHCHECK'))
      return await runProgram(join(image, 'usr/local/bin', node), rest, { env })
    }
    t.match(await health(), { code: 1, stdout: '', stderr: '' }, 'varve is not up yet')
    const { child, pid } = await begun(t, commandsOf(last, image), lastInstruction(last, 'USER'), env)
    const [reads, admin] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${adminPort}`]
    await until(async () => (await sendRequest(admin, '/readyz')).status === 200, 'ready')
    t.match(await health(), { code: 0, stdout: '', stderr: '' })

    const traffic = await runProgram(process.execPath, [
      join(checkoutRoot, 'deploy/compose/traffic.mjs'),
      reads,
      admin,
      '5',
      '40'
    ])
    t.match(traffic, {
      code: 0,
      stdout: /traffic: 40 reads a second for 5 s\ntraffic: \d+ reads, 0 failed\n/,
      stderr: ''
    })
    const { body } = await sendRequest(admin, '/metrics')
    for (const endpoint of ['table_item', 'account_modules', 'account_events', 'block_by_version']) {
      for (const outcome of ['hit_memory', 'miss']) {
        t.match(
          body,
          new RegExp(`^varve_requests_total\\{endpoint="${endpoint}",outcome="${outcome}",status="200"\\} [1-9]`, 'm'),
          `${endpoint} ${outcome}`
        )
      }
    }
    t.notMatch(body, /^varve_requests_total\{.*status="[45]/m, 'no read of it is an error')

    process.kill(pid, lastInstruction(last, 'STOPSIGNAL') as NodeJS.Signals)
    const [code] = await once(child, 'close') as [number | null]
    t.equal(code, 0, 'varve has drained and exited')
    t.match(await health(), { code: 1 })
  }
)

t.test('the demo traffic sends nothing to a varve whose upstream is a real node', async t => {
  const [port, adminPort] = [await freePort(), await freePort()]
  const env = { PATH: process.env['PATH'], VARVE_LISTEN: `127.0.0.1:${port}`, VARVE_ADMIN: `127.0.0.1:${adminPort}` }
  const node = spawn(process.execPath, [join(checkoutRoot, 'dist/cli.js'), 'sandbox', '--listen', '127.0.0.1:0'], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  t.teardown(() => {
    node.kill('SIGKILL')
  })
  let said = ''
  node.stdout.on('data', bytes => {
    said += String(bytes)
  })
  await until(() => /http:\/\/127\.0\.0\.1:\d+/.test(said), 'the node listens')
  const varve = spawn(process.execPath, [join(checkoutRoot, 'dist/cli.js')], {
    stdio: 'ignore',
    env: { ...env, VARVE_UPSTREAM: /http:\/\/127\.0\.0\.1:\d+/.exec(said)?.[0] }
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

/** Returns ENTRYPOINT and CMD with the paths inside the image. */
function commandsOf (last: Parameters<typeof lastInstruction>[0], image: string): string[] {
  return [...commandOf(lastInstruction(last, 'ENTRYPOINT')), ...commandOf(lastInstruction(last, 'CMD'))].map((
    word,
    at
  ) => at === 0 ? join(image, 'usr/local/bin', word) : word.startsWith('/') ? join(image, word) : word)
}

/** Starts the command as the image's user and as the first process of its own namespace, if permitted. */
async function begun (
  t: Test,
  command: string[],
  user: string,
  env: Record<string, string>
): Promise<{ child: ChildProcess, pid: number }> {
  const [uid = '', gid = ''] = user.split(':')
  // Removes the test runner's NODE_OPTIONS, which would write where the image's user may not.
  const bare = ['env', '-u', 'NODE_OPTIONS']
  const alone = isRoot
    ? ['unshare', '--pid', '--fork', 'setpriv', '--reuid', uid, '--regid', gid, '--clear-groups', '--no-new-privs']
    : []
  const [program = '', ...rest] = [...bare, ...alone, ...command]
  const child = spawn(program, rest, {
    env: { ...env, PATH: `${env['PATH']}${delimiter}${process.env['PATH']}` },
    cwd: '/',
    stdio: ['ignore', 'ignore', 'inherit']
  })
  t.teardown(() => {
    child.kill('SIGKILL')
  })
  const outer = whole(child.pid, 'process')
  if (!isRoot) return { child, pid: outer }
  const children = `/proc/${outer}/task/${outer}/children`
  await until(() => readFileSync(children, 'utf8').trim() !== '', 'the first process is there')
  const pid = Number(readFileSync(children, 'utf8').trim())
  t.teardown(() => {
    if (existsSync(`/proc/${pid}`)) process.kill(pid, 'SIGKILL')
  })
  await until(
    () => /^Uid:\s+1000\s+1000\s+1000\s+1000$/m.test(readFileSync(`/proc/${pid}/status`, 'utf8')),
    'it is nobody in particular'
  )
  t.match(readFileSync(`/proc/${pid}/status`, 'utf8'), /^NSpid:\s+\d+(?:\s+\d+)*\s+1$/m, 'and the first process')
  return { child, pid }
}

async function holdsWhatThePackageHolds (t: Test, app: string): Promise<void> {
  const { code, stdout, stderr } = await runProgram('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
    cwd: checkoutRoot
  })
  t.equal(code, 0, stderr)
  const [{ files } = { files: [] }] = JSON.parse(stdout) as Array<{ files: Array<{ path: string }> }>
  t.same(filesBelow(app).filter(path => !path.startsWith('node_modules/')), files.map(({ path }) => path).sort())
  const { packages } = JSON.parse(readCheckout('package-lock.json')) as {
    packages: Record<string, { dev?: boolean, devOptional?: boolean }>
  }
  const atRunTime = Object.entries(packages).filter(([path, { dev, devOptional }]) =>
    path !== '' && dev !== true && devOptional !== true
  ).map(([path]) => path)
  const brought = filesBelow(app).filter(path => path.startsWith('node_modules/') && path.endsWith('/package.json'))
    .map(path => path.slice(0, -'/package.json'.length)).filter(path => packages[path] !== undefined).sort()
  t.same(brought, atRunTime.sort(), 'nothing that only development needs')
}

function filesBelow (dir: string): string[] {
  return readdirSync(dir, { recursive: true, encoding: 'utf8' }).filter(path =>
    !lstatSync(join(dir, path)).isDirectory()
  ).sort()
}
