import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { findCommand as cliCommandOf } from '../src/cli/commands.js'
import { sharedPart } from '../src/app/disk-backend.js'
import { loadConfig } from '../src/config/load.js'
import { hostAndPort } from '../src/config/value-checks.js'
import { sendRequest } from './support/client.js'
import { checkConfig, containerField, fieldOf, kustomizationOf, manifests } from './support/deploy/manifests.js'
import { commandOf, copyOf, lastInstruction, pairsOf, readStages } from './support/deploy/image.js'
import { checkoutRoot, readCheckout } from './support/deploy/checkout.js'
import { type TestVarve, varveAt, varveAtSandbox } from './support/varve.js'

interface Service {
  image: string
  profiles?: string[]
  environment?: Record<string, string | null>
  entrypoint?: string[]
  command?: string[]
  volumes?: string[]
  ports?: string[]
  depends_on?: string[] | Record<string, { condition: string }>
  healthcheck: { test?: string[], disable?: boolean }
  mem_limit: string
  shm_size?: string
  stop_grace_period?: string
  read_only: boolean
  cap_drop: string[]
  cap_add?: string[]
  security_opt: string[]
  restart: string
}

const { version } = JSON.parse(readCheckout('package.json')) as { version: string }
const stages = readStages(readCheckout('Dockerfile'))
const image = stages.at(-1) ?? { image: '', name: undefined, steps: [] }
const environment = pairsOf(lastInstruction(image, 'ENV'))
const { services } = parse(readCheckout('docker-compose.yml')) as { services: Record<string, Service> }
const varve = services['varve'] as Service
const unit = readCheckout('deploy/systemd/varve.service')
// Returns all values of a setting that a unit may give more than once.
const settings = (name: string): string[] =>
  [...unit.matchAll(new RegExp(`^${name}=(.*)$`, 'gm'))].map(([, value = '']) => value)
const [, stop = ''] = /^const stopTimeoutMs = ([0-9_]+)$/m.exec(readCheckout('src/peers/worker-pool.ts')) ?? []
const stopSeconds = Number(stop.replace('_', '')) / 1000

t.test('every image is named by its full version, the same one everywhere', async t => {
  const named = [
    ...stages.map(({ image }) => image),
    ...Object.values(services).map(({ image }) => image),
    ...manifests.filter(({ kind }) => kind === 'Deployment').map(({ metadata: { name } }) =>
      fieldOf(`Deployment ${name}`, 'spec.template.spec.containers.0.image') as string
    )
  ]
  const { images } = kustomizationOf('deploy/kubernetes/base')
  t.same(images?.map(({ name, newTag }) => `${name}:${newTag}`), [`varve:${version}`])
  const tags = new Map<string, string>()
  for (const whole of named.map(name => name === 'varve' ? `varve:${version}` : name)) {
    const [name = '', tag = ''] = whole.split('@', 1).join('').split(':')
    t.match(tag, /^v?\d+\.\d+\.\d+(?:-[a-z]+(?:-slim)?)?$|^[a-z]+-\d{8}-slim$/, whole)
    t.equal(tags.get(name) ?? tag, tag, whole)
    tags.set(name, tag)
  }
  t.same([...tags.keys()].sort(), [
    'caddy',
    'debian',
    'grafana/grafana',
    'node',
    'prom/prometheus',
    'redis',
    'varve'
  ])
  t.equal(tags.get('varve'), version)
})

t.test('the image is labelled, has every file it copies, and runs unprivileged without a shell', async t => {
  const labels = pairsOf(lastInstruction(image, 'LABEL'))
  t.match(labels, {
    'org.opencontainers.image.version': version,
    'org.opencontainers.image.licenses': 'MIT',
    'org.opencontainers.image.base.name': `docker.io/library/${image.image.split('@')[0]}`,
    'org.opencontainers.image.base.digest': image.image.split('@')[1]
  })
  for (const { image } of stages) t.match(image, /@sha256:[0-9a-f]{64}$/, 'pinned by its digest')
  const ignored = readCheckout('.dockerignore').split('\n')
  for (
    const { from, sources } of stages.flatMap(({ steps }) => steps).filter(({ name }) => name === 'COPY').map((
      { text }
    ) => copyOf(text))
  ) {
    if (from !== undefined) t.ok(stages.some(({ name }) => name === from), from)
    for (const source of from === undefined ? sources : []) {
      t.ok(existsSync(join(checkoutRoot, source)) && ignored.includes(`!${source}`), source)
    }
  }
  // Files that npm always packs, and files that package.json lists.
  const { files } = JSON.parse(readCheckout('package.json')) as { files: string[] }
  for (
    const name of [
      'package.json',
      'README.md',
      'LICENSE',
      ...files.filter(name => !name.startsWith('!') && !name.startsWith('dist'))
    ]
  ) t.ok(ignored.includes(`!${name}`), name)
  t.notOk(image.steps.some(({ name }) => name === 'RUN'), 'a build for another processor runs no command in the image')
  t.equal(lastInstruction(image, 'USER'), '1000:1000')
  t.same([...commandOf(lastInstruction(image, 'ENTRYPOINT')), ...commandOf(lastInstruction(image, 'CMD'))], [
    'node',
    '/app/dist/cli.js',
    'serve'
  ])
  const { config } = loadConfig(environment, {})
  t.same([config.listen, config.admin.listen], ['0.0.0.0:8080', '0.0.0.0:9464'])
  t.same(
    lastInstruction(image, 'EXPOSE').split(' ').map(Number),
    [config.listen, config.admin.listen].map(at => hostAndPort(at).port)
  )
})

t.test('every health check and probe requests a path that only the admin listener serves', async t => {
  const { varve: running } = await varveAtSandbox(t)
  const pathIn = (command: string[] = []): string => /\/[a-z]+z/.exec(command.join(' '))?.[0] ?? ''
  t.equal(pathIn(commandOf(lastInstruction(image, 'HEALTHCHECK'))), '/healthz')
  t.equal(pathIn(varve.healthcheck.test), '/readyz')
  const probes = (['startupProbe', 'readinessProbe', 'livenessProbe'] as const).map(name =>
    containerField(`${name}.httpGet`)
  )
  t.same(probes, [{ path: '/healthz', port: 'admin' }, { path: '/readyz', port: 'admin' }, {
    path: '/healthz',
    port: 'admin'
  }])
  for (const path of ['/healthz', '/readyz', '/metrics', '/status.json']) {
    t.equal((await sendRequest(running.adminUrl, path)).status, 200, path)
    t.equal((await running.get(path)).status, 404, path)
  }
})

t.test('the health checks of image and compose succeed at a ready varve, without another Node', async t => {
  const { varve: ready } = await varveAtSandbox(t)
  const starting = await varveAt(t, 'http://127.0.0.1:1')
  const portOf = ({ adminUrl }: TestVarve): string => new URL(adminUrl).port
  const exitOf = async ([program = '', ...args]: readonly string[], port: string): Promise<number | null> => {
    const child = spawn(program, args.map(each => each.replaceAll('$$', '$').replace('/9464', `/${port}`)), {
      env: { ...process.env, VARVE_ADMIN: `0.0.0.0:${port}` }
    })
    const [code] = await once(child, 'exit') as [number | null]
    return code
  }
  const live = commandOf(lastInstruction(image, 'HEALTHCHECK'))
  const serving = varve.healthcheck.test?.slice(1) ?? []
  const exitsAt = async (port: string): Promise<Array<number | null>> =>
    await Promise.all([live, serving].map(async command => await exitOf(command, port)))
  t.same([live[0], serving[0]], ['bash', 'bash'])
  t.same(await exitsAt(portOf(ready)), [0, 0])
  t.same(await exitsAt(portOf(starting)), [0, 1], 'alive, not ready')
  t.same(await exitsAt('1'), [1, 1])
})

t.test('compose mounts files read-only, bounds every service, and publishes on loopback only', async t => {
  for (const [name, service] of Object.entries(services)) {
    for (const [from = '', , mode] of (service.volumes ?? []).map(volume => volume.split(':'))) {
      if (!from.startsWith('./')) continue
      t.ok(existsSync(join(checkoutRoot, from)), `${name}: ${from}`)
      t.equal(mode, 'ro', `${name}: ${from}`)
    }
    t.match(service, {
      read_only: true,
      cap_drop: ['ALL'],
      security_opt: ['no-new-privileges:true'],
      mem_limit: /^\d+[mg]$/,
      // A wrong configuration, exit code 2, is not started for ever.
      restart: { traffic: 'no', varve: 'on-failure:5' }[name] ?? 'unless-stopped'
    }, name)
    for (const port of service.ports ?? []) t.match(port, /^127\.0\.0\.1:(\d+):\1$/, name)
    t.ok(
      service.healthcheck.disable === true || service.healthcheck.test?.[0] === 'CMD',
      `${name} has a health check as a list`
    )
    const waitsFor = Array.isArray(service.depends_on) ? [] : Object.entries(service.depends_on ?? {})
    for (const [other, { condition }] of waitsFor) {
      t.ok(
        condition === 'service_healthy' && services[other]?.healthcheck.test !== undefined,
        `${name} waits for ${other}`
      )
    }
  }
})

t.test('compose starts varve alone; a profile adds what it names, and all that it waits for', async t => {
  const profiles = Object.entries(services).map(([name, { profiles = [] }]) => [name, profiles.join(' ')])
  t.same(Object.fromEntries(profiles), {
    varve: '',
    traffic: 'demo',
    tls: 'tls',
    redis: 'redis',
    prometheus: 'monitoring demo',
    grafana: 'monitoring demo'
  })
  for (const [name, { profiles = [], depends_on: needs = [] }] of Object.entries(services)) {
    for (const other of Array.isArray(needs) ? needs : Object.keys(needs)) {
      const inAll = services[other]?.profiles
      t.ok(inAll === undefined || profiles.every(profile => inAll.includes(profile)), `${name} finds ${other}`)
    }
    t.same(services[name]?.cap_add ?? [], name === 'tls' ? ['NET_BIND_SERVICE'] : [], name)
  }
  // The value that the comments of the file name for the profile redis.
  const [, redis = ''] = /VARVE_REDIS=(\S+)/.exec(readCheckout('docker-compose.yml')) ?? []
  t.equal(new URL(loadConfig({ VARVE_REDIS: redis }, {}).config.cache.redis.url ?? '').hostname, 'redis')
})

t.test('compose sets known variables, gives Prometheus its rules, and loads the sandbox only', async t => {
  const known = cliCommandOf('serve')?.flags.map(({ variable }) => variable?.split('=', 1).join(''))
  for (const name of Object.keys(varve.environment ?? {})) t.ok(known?.includes(name), name)
  const { config } = loadConfig(environment, {})
  // The user of the image owns the folder of the disk tier, which is a volume.
  const folder = varve.environment?.['VARVE_DISK'] ?? ''
  t.same(varve.volumes, [`cache:${folder}`])
  t.ok(
    parseInt(varve.shm_size ?? '') >= config.cache.memory.maxMb * sharedPart,
    'workers have room for what they share'
  )
  const [image] = stages.slice(-1)
  t.ok(
    image?.steps.some(({ name, text }) =>
      name === 'COPY' &&
      text === `--from=build --chown=${lastInstruction(image, 'USER')} /image-cache/ ${dirname(folder)}/`
    )
  )

  const mounts = services['prometheus']?.volumes ?? []
  const { rule_files: rules, scrape_configs: jobs } = parse(readCheckout('config/prometheus.yml')) as {
    rule_files: string[],
    scrape_configs: Array<{ job_name: string, static_configs: Array<{ targets: string[] }> }>
  }
  for (const file of ['prometheus.yml', ...rules]) {
    t.ok(mounts.includes(`./config/${file}:/etc/prometheus/${file}:ro`), file)
  }
  t.same(jobs.map(({ static_configs: [first] }) => first?.targets), [[
    `varve:${hostAndPort(config.admin.listen).port}`
  ]])
  const home = services['grafana']?.environment?.['GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH'] ?? ''
  t.ok(existsSync(join(checkoutRoot, home.replace('/var/lib/grafana/', 'grafana/'))), home)

  const { entrypoint, command = [], volumes = [] } = services['traffic'] as Service
  t.same(entrypoint, ['node', '/traffic.mjs'])
  t.same(volumes, ['./deploy/compose/traffic.mjs:/traffic.mjs:ro'])
  t.same(command.slice(0, 2), ['http://varve:8080', 'http://varve:9464'])
  t.ok(Number(command[2]) <= 3600 && Number(command[3]) <= 10)
})

t.test('compose, Kubernetes and systemd wait longer than varve may take to stop', async t => {
  t.ok(stopSeconds >= 10)
  t.ok(Number(/^(\d+)s$/.exec(varve.stop_grace_period ?? '')?.[1]) > 1 + stopSeconds, 'compose')
  const drainSeconds = (file: string): number =>
    (parse(readCheckout(file)) as { shutdown: { drainSeconds: number } }).shutdown.drainSeconds
  const grace = fieldOf('Deployment varve', 'spec.template.spec.terminationGracePeriodSeconds')
  t.ok(Number(grace) > drainSeconds('deploy/kubernetes/base/varve.yaml') + stopSeconds, 'Kubernetes')
  t.ok(Number(settings('TimeoutStopSec')[0]) > drainSeconds('deploy/systemd/varve.yaml') + stopSeconds, 'systemd')
})

t.test('the systemd unit provides what the configuration needs, and retries no wrong configuration', async t => {
  const [start = ''] = settings('ExecStart')
  t.match(start, /^\/\S+\/varve serve --config \/etc\/varve\/varve\.yaml$/)
  t.match(settings('ExecReload'), [/ exec \/usr\/local\/bin\/varve reload'$/])
  t.match([...settings('DynamicUser'), ...settings('NoNewPrivileges'), ...settings('ProtectSystem')], [
    'yes',
    'yes',
    'strict'
  ])
  t.same(settings('RestartPreventExitStatus'), ['2'], 'the exit code of a wrong configuration')
  const credentials = settings('LoadCredential').map(given => given.split(':')[0] ?? '')
  await checkConfig(
    t,
    readCheckout('deploy/systemd/varve.yaml'),
    '/run/credentials/varve.service',
    Object.fromEntries(credentials.map(name => [name, `${name}-of-the-test`]))
  )
})
