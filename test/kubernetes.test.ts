import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { parse } from 'yaml'
import { memoryNeededMb } from './support/memory-needed.js'
import { commandOf } from '../src/cli/commands.js'
import { checkConfig } from './support/deploy/check-config.js'
import {
  manifestFilesOf,
  manifestFolders,
  findManifest,
  kustomizationOf,
  type Manifest,
  manifestsOf,
  checkoutRoot,
  readCheckout,
  varvePod,
  yamlIn
} from './support/deploy/manifests.js'

const manifests = manifestFolders.flatMap(manifestsOf)
const { pod, container } = varvePod()

t.test('kustomizations list every file, every listed file exists, and none sets a namespace', async t => {
  for (const folder of [...manifestFolders, 'grafana']) {
    const { resources = [], configMapGenerator = [] } = kustomizationOf(folder)
    for (const name of [...resources, ...configMapGenerator.flatMap(({ files }) => files)]) {
      t.ok(existsSync(join(checkoutRoot, folder, name)), `${folder}: ${name}`)
    }
    const generated = configMapGenerator.flatMap(({ files }) => files)
    if (folder !== 'grafana') t.same(yamlIn(folder).sort(), [...manifestFilesOf(folder), ...generated].sort(), folder)
  }
  for (const { file, manifest: { metadata } } of manifests) t.equal(metadata.namespace, undefined, file)
})

t.test('the configuration is valid, secrets come from the Secret, and only the image sets listen', async t => {
  const at = (kind: 'secret' | 'configMap'): string =>
    container.volumeMounts.find(({ name }) => pod.volumes.find(volume => volume.name === name)?.[kind] !== undefined)
      ?.mountPath ?? ''
  t.equal(at('secret'), '/run/secrets/varve')
  t.same(container.args, ['serve', '--config', `${at('configMap')}/varve.yaml`])
  t.ok(commandOf('serve')?.flags.some(({ name }) => name === 'config'))
  const config = await checkConfig(t, 'deploy/kubernetes/varve.yaml', at('secret'), {
    'admin-token': 'a-token-of-the-test',
    'node-key': 'a-key-of-the-test',
    'redis-password': 'a-password-of-the-test'
  })
  t.equal(new URL(config.cache.redis.url ?? '').hostname, findManifest('Service', 'varve-redis').metadata.name)
  t.equal(config.upstreams.length, 1)
  t.ok(
    memoryNeededMb(config) <= 1280 && container.resources.limits.memory === '1280Mi',
    'the limit is what the configuration needs'
  )
  // The image sets both addresses in its environment, which overrides this file.
  t.notMatch(readCheckout('deploy/kubernetes/varve.yaml'), /^ *listen:/m)
})

t.test('every selector and every named port has a target', async t => {
  const deployments = manifests.map(({ manifest }) => manifest).filter(({ kind }) => kind === 'Deployment')
  const chosenBy = (labels: Record<string, string>): Manifest[] =>
    deployments.filter(({ spec }) =>
      Object.entries(labels).every(([key, value]) => spec.template.metadata.labels[key] === value)
    )
  for (const { manifest: { kind, metadata: { name }, spec } } of manifests) {
    const labels = kind === 'Service'
      ? spec.selector
      : kind === 'NetworkPolicy'
      ? spec.podSelector.matchLabels
      : kind === 'ServiceMonitor' || kind === 'PrometheusRule'
      ? undefined
      : spec.selector.matchLabels
    if (labels === undefined) continue
    const [chosen, ...more] = chosenBy(labels)
    t.ok(chosen !== undefined && more.length === 0, `${kind} ${name} selects one deployment`)
    const ports = chosen?.spec.template.spec.containers[0]?.ports.map(({ name }) => name)
    const wanted = kind === 'Service'
      ? spec.ports.map(({ targetPort }) => targetPort)
      : kind === 'NetworkPolicy'
      ? spec.ingress.flatMap(({ ports }) => ports.map(({ port }) => port))
      : []
    for (const port of wanted) t.ok(ports?.includes(port as string), `${kind} ${name}: ${port}`)
  }
  t.same(container.ports, [{ name: 'http', containerPort: 8080 }, { name: 'admin', containerPort: 9464 }])
  const policy = findManifest('NetworkPolicy').spec.ingress
  t.same(
    policy.map(({ ports, from }) => [ports[0]?.port, from === undefined]),
    [['http', true], ['admin', false]],
    'reads are open to all, the admin listener is not'
  )

  const { selector, jobLabel, endpoints: [endpoint] } = findManifest('ServiceMonitor').spec
  const admin = findManifest('Service', 'varve-admin')
  t.match(admin.metadata.labels, selector.matchLabels)
  t.notMatch(findManifest('Service').metadata.labels, selector.matchLabels, 'each replica is scraped once')
  t.equal(endpoint?.port, admin.spec.ports[0]?.name)
  t.ok(
    readCheckout('config/prometheus-rules.yml').includes(`up{job="${admin.metadata.labels[jobLabel]}"}`),
    'by the job that the rules name'
  )
})

t.test('each deployment drops all privileges, and varve runs at least two replicas', async t => {
  t.ok((findManifest('Deployment').spec.replicas ?? 0) >= 2)
  for (
    const { spec: { template: { spec } }, metadata: { name } } of [
      findManifest('Deployment'),
      findManifest('Deployment', 'varve-redis')
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
    readCheckout('deploy/kubernetes/monitoring/prometheus-rule.yaml'),
    readFileSync(made, 'utf8'),
    'run node scripts/prometheus-rule.js'
  )
  t.same(
    findManifest('PrometheusRule').spec.groups,
    (parse(readCheckout('config/prometheus-rules.yml')) as { groups: unknown }).groups
  )

  t.ok(kustomizationOf('deploy/kubernetes/monitoring').resources?.includes('../../../grafana'))
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
