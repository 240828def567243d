import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { memoryNeededMb } from './support/memory-needed.js'
import { findCommand } from '../src/cli/commands.js'
import { loadConfig } from '../src/config/load.js'
import { type Config } from '../src/config/schema.js'
import { checkConfig } from './support/deploy/check-config.js'
import { kustomizationOf } from './support/deploy/kustomize.js'
import {
  applicable,
  findManifest,
  kustomized,
  manifestFolder,
  manifestsOf,
  checkoutRoot,
  readCheckout,
  varvePod
} from './support/deploy/manifests.js'

const { pod, container } = varvePod()
const configFile = `${manifestFolder}/base/varve.yaml`

t.test('kustomizations list every file, every listed file exists, and none sets a namespace', async t => {
  t.same([...applicable].sort(), [
    'base',
    'overlays/disk',
    'overlays/hpa',
    'overlays/ingress',
    'overlays/monitoring',
    'overlays/redis'
  ])
  for (const folder of kustomized.map(name => `${manifestFolder}/${name}`)) {
    const { resources = [], components = [], configMapGenerator = [] } = kustomizationOf(folder)
    const listed = [...resources, ...components, ...configMapGenerator.flatMap(({ files }) => files)]
    for (const name of listed) t.ok(existsSync(join(checkoutRoot, folder, name)), `${folder}: ${name}`)
    const files = readdirSync(join(checkoutRoot, folder)).filter(name => name !== 'kustomization.yaml')
    t.same(files.sort(), listed.filter(name => !name.startsWith('../')).sort(), folder)
  }
  for (const folder of applicable) {
    for (const { metadata: { name, namespace } } of manifestsOf(folder)) t.equal(namespace, undefined, name)
  }
})

t.test('the configuration is valid, secrets come from the Secret, and only the image sets listen', async t => {
  const at = (kind: 'secret' | 'configMap'): string =>
    container.volumeMounts.find(({ name }) => pod.volumes.find(volume => volume.name === name)?.[kind] !== undefined)
      ?.mountPath ?? ''
  t.equal(at('secret'), '/run/secrets/varve')
  t.same(container.args, ['serve', '--config', `${at('configMap')}/varve.yaml`])
  t.ok(findCommand('serve')?.flags.some(({ name }) => name === 'config'))
  const secrets = { 'admin-token': 'a-token-of-the-test' }
  const config = await checkConfig(t, readCheckout(configFile), at('secret'), secrets)
  t.equal(config.upstreams.length, 1)
  t.ok(
    memoryNeededMb(config) <= 1280 && container.resources.limits.memory === '1280Mi',
    'the limit is what the configuration needs'
  )
  // The image sets both addresses in its environment, which overrides this file.
  t.notMatch(readCheckout(configFile), /^ *listen:/m)

  const withKey = readCheckout(configFile).replace('# headers:', 'headers:')
  await checkConfig(t, withKey, at('secret'), { ...secrets, 'node-key': 'a-key-of-the-test' })
})

t.test('components set variables that varve reads, in both kinds of pods', async t => {
  const settings = (folder: string, kind?: string): Record<string, string> =>
    Object.fromEntries((varvePod(folder, kind).container.env ?? []).map(({ name, value = '' }) => [name, value]))
  const configWith = (environment: Record<string, string>): Config => loadConfig(environment, {}).config
  t.equal(configWith(settings('base')).cache.redis.url, null)

  const { REDIS_PASSWORD: password, VARVE_REDIS: redis = '', ...others } = settings('overlays/redis')
  t.equal(password, '', 'comes from the Secret')
  const { cache } = configWith({ ...others, VARVE_REDIS: redis.replace('$(REDIS_PASSWORD)', 'secret') })
  t.equal(
    new URL(cache.redis.url ?? '').hostname,
    findManifest('overlays/redis', 'Service', 'varve-redis').metadata.name
  )
  t.same(settings('overlays/hpa'), settings('overlays/redis'))

  const { VARVE_DISK: disk = '' } = settings('base')
  t.equal(container.volumeMounts.find(({ mountPath }) => mountPath === disk)?.name, 'disk')
  t.same(pod.volumes.find(({ name }) => name === 'disk')?.emptyDir, { sizeLimit: '12Gi' })
  t.equal(settings('overlays/disk', 'StatefulSet')['VARVE_DISK'], disk)
  const { pod: podWithClaim, container: containerWithClaim } = varvePod('overlays/disk', 'StatefulSet')
  const { spec } = findManifest('overlays/disk', 'StatefulSet')
  t.equal(containerWithClaim.volumeMounts.find(({ mountPath }) => mountPath === disk)?.name, 'disk')
  t.notOk(podWithClaim.volumes.some(({ name }) => name === 'disk'), 'the claim alone')
  t.same(spec.volumeClaimTemplates?.map(({ metadata }) => metadata.name), ['disk'])
  t.ok(findManifest('overlays/disk', 'Service', spec.serviceName))
  t.equal(Number(/^(\d+)Gi$/.exec(spec.volumeClaimTemplates?.[0]?.spec.resources.requests.storage ?? '')?.[1]), 12)
  t.ok(configWith({}).cache.disk.maxGb * 1.1 < 12, 'the volume is larger than the disk tier may become')
  t.match(podWithClaim.securityContext, { fsGroup: 1000 }, 'varve may write to the volume')
})

t.test('every selector, named port, scaled object and backend has a target', async t => {
  for (const folder of applicable) hasTargets(t, folder)
  t.same(container.ports, [{ name: 'http', containerPort: 8080 }, { name: 'admin', containerPort: 9464 }])
  const policy = findManifest('base', 'NetworkPolicy').spec.ingress
  t.same(
    policy.map(({ ports, from }) => [ports[0]?.port, from === undefined]),
    [['http', true], ['admin', false]],
    'reads are open to all, the admin listener is not'
  )

  const { selector, jobLabel, endpoints: [endpoint] } = findManifest('overlays/monitoring', 'ServiceMonitor').spec
  const admin = findManifest('base', 'Service', 'varve-admin')
  t.match(admin.metadata.labels, selector.matchLabels)
  t.notMatch(findManifest('base', 'Service').metadata.labels, selector.matchLabels, 'each replica is scraped once')
  t.equal(endpoint?.port, admin.spec.ports[0]?.name)
  t.ok(
    readCheckout('config/prometheus-rules.yml').includes(`up{job="${admin.metadata.labels[jobLabel]}"}`),
    'by the job that the rules name'
  )
  const { rules: [rule] } = findManifest('overlays/ingress', 'Ingress').spec
  t.equal(rule?.http.paths[0]?.backend.service.name, 'varve', 'no path of the ingress reaches the admin listener')
  t.equal(findManifest('overlays/hpa', 'Deployment').spec.replicas, undefined, 'only the autoscaler sets the number')
})

function hasTargets (t: Test, folder: string): void {
  const manifests = manifestsOf(folder)
  const workloads = manifests.filter(({ kind }) => ['Deployment', 'StatefulSet'].includes(kind))
  for (const { kind, metadata: { name }, spec } of manifests) {
    const where = `${folder}: ${kind} ${name}`
    if (kind === 'HorizontalPodAutoscaler') {
      const { kind: target, name: scaled } = spec.scaleTargetRef
      t.ok(workloads.some(one => one.kind === target && one.metadata.name === scaled), where)
    }
    if (kind === 'Ingress') {
      for (const { backend: { service } } of spec.rules.flatMap(({ http }) => http.paths)) {
        const { ports } = findManifest(folder, 'Service', service.name).spec
        t.ok(ports.some(port => port.name === service.port.name), where)
      }
    }
    const labels = kind === 'Service'
      ? spec.selector
      : kind === 'NetworkPolicy'
      ? spec.podSelector.matchLabels
      : ['Deployment', 'StatefulSet', 'PodDisruptionBudget'].includes(kind)
      ? spec.selector.matchLabels
      : undefined
    if (labels === undefined) continue
    const [chosen, ...more] = workloads.filter(({ spec }) =>
      Object.entries(labels).every(([key, value]) => spec.template.metadata.labels[key] === value)
    )
    t.ok(chosen !== undefined && more.length === 0, `${where} selects one workload`)
    const ports = chosen?.spec.template.spec.containers[0]?.ports.map(({ name }) => name)
    const wanted = kind === 'Service'
      ? spec.ports.map(({ targetPort }) => targetPort)
      : kind === 'NetworkPolicy'
      ? spec.ingress.flatMap(({ ports }) => ports.map(({ port }) => port))
      : []
    for (const port of wanted) t.ok(ports?.includes(port as string), `${where}: ${port}`)
  }
}

t.test('each workload drops all privileges, and varve runs at least two replicas', async t => {
  t.ok((findManifest('base', 'Deployment').spec.replicas ?? 0) >= 2)
  for (
    const { spec: { template: { spec } }, metadata: { name } } of [
      findManifest('base', 'Deployment'),
      findManifest('overlays/disk', 'StatefulSet'),
      findManifest('overlays/redis', 'Deployment', 'varve-redis')
    ]
  ) {
    t.match(spec.securityContext, { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } }, name)
    for (const one of spec.containers) {
      t.match(one.securityContext, {
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] }
      }, name)
    }
  }
  t.match(pod, { automountServiceAccountToken: false, enableServiceLinks: false })
})

t.test('Kubernetes gets the rules and dashboards unchanged, each small enough to apply', async t => {
  const made = join(t.testdir(), 'rule.yaml')
  await promisify(execFile)(process.execPath, [join(checkoutRoot, 'scripts/prometheus-rule.js'), made])
  t.equal(
    readCheckout('deploy/kubernetes/components/monitoring/prometheus-rule.yaml'),
    readFileSync(made, 'utf8'),
    'run node scripts/prometheus-rule.js'
  )
  t.same(
    findManifest('overlays/monitoring', 'PrometheusRule').spec.groups,
    (parse(readCheckout('config/prometheus-rules.yml')) as { groups: unknown }).groups
  )

  t.ok(kustomizationOf('deploy/kubernetes/components/monitoring').resources?.includes('../../../../grafana'))
  const { configMapGenerator = [] } = kustomizationOf('grafana')
  t.same(
    configMapGenerator.map(({ name, files: [file] }) => [name, file]),
    readdirSync(join(checkoutRoot, 'grafana/dashboards')).map(
      file => [`varve-dashboard-${file.replace('.json', '')}`, `dashboards/${file}`]
    )
  )
  // kubectl stores what it applies again in an annotation, which has a size limit.
  for (const { files: [file = ''] } of configMapGenerator) {
    t.ok(statSync(join(checkoutRoot, 'grafana', file)).size * 1.2 < 262_144, file)
  }
})
