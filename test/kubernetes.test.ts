import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { parse } from 'yaml'
import { loadConfig } from '../src/config/load.js'
import {
  checkConfig,
  containerField,
  fieldOf,
  kustomizationOf,
  kustomized,
  manifestFolder,
  manifests
} from './support/deploy/manifests.js'
import { checkoutRoot, readCheckout } from './support/deploy/checkout.js'

const configFile = `${manifestFolder}/base/varve.yaml`
/** Fields on which varve, or another object, depends. */
const fields = parse(readCheckout('test/cases/kubernetes-fields.yaml')) as Readonly<
  Record<string, ReadonlyArray<{ readonly path: string, readonly expected: unknown, readonly why: string }>>
>

t.test('ports, probes, selectors and privileges of the manifests fit varve and one another', async t => {
  for (const [of, all] of Object.entries(fields)) {
    for (const { path, expected, why } of all) t.same(fieldOf(of, path), expected, `${of} ${path}: ${why}`)
  }
  t.same(containerField('ports'), [{ name: 'http', containerPort: 8080 }, { name: 'admin', containerPort: 9464 }])
  t.ok(readCheckout('config/prometheus-rules.yml').includes('up{job="varve"}'), 'by the job that the rules name')
})

t.test('kustomizations list every file, every listed file exists, and none sets a namespace', async t => {
  for (const folder of kustomized.map(name => `${manifestFolder}/${name}`)) {
    const { resources = [], components = [], configMapGenerator = [] } = kustomizationOf(folder)
    const listed = [...resources, ...components, ...configMapGenerator.flatMap(({ files }) => files)]
    for (const name of listed) t.ok(existsSync(join(checkoutRoot, folder, name)), `${folder}: ${name}`)
    const files = readdirSync(join(checkoutRoot, folder)).filter(name => name !== 'kustomization.yaml')
    t.same(files.sort(), listed.filter(name => !name.startsWith('../')).sort(), folder)
  }
  for (const { metadata: { name, namespace } } of manifests) t.equal(namespace, undefined, name)
})

t.test('the configuration is valid, secrets come from the Secret, and only the image sets listen', async t => {
  t.same(containerField('args'), ['serve', '--config', '/etc/varve/varve.yaml'])
  t.same(containerField('volumeMounts'), [
    { name: 'disk', mountPath: '/var/cache/varve' },
    { name: 'config', mountPath: '/etc/varve', readOnly: true },
    { name: 'secrets', mountPath: '/run/secrets/varve', readOnly: true },
    { name: 'shm', mountPath: '/dev/shm' }
  ])
  const secrets = { 'admin-token': 'a-token-of-the-test' }
  const config = await checkConfig(t, readCheckout(configFile), '/run/secrets/varve', secrets)
  t.equal(config.upstreams.length, 1)
  // The image sets both addresses in its environment, which overrides this file.
  t.notMatch(readCheckout(configFile), /^ *listen:/m)

  const withKey = readCheckout(configFile).replace('# headers:', 'headers:')
  await checkConfig(t, withKey, '/run/secrets/varve', { ...secrets, 'node-key': 'a-key-of-the-test' })
})

t.test('the manifests set variables that varve reads, and volumes that hold the disk tier', async t => {
  const settings = (env: unknown): Record<string, string> =>
    Object.fromEntries((env as Array<{ name: string, value?: string }>).map(({ name, value = '' }) => [name, value]))
  const patchesOf = (component: string): Array<{ path: string, value: unknown }> =>
    (kustomizationOf(`${manifestFolder}/components/${component}`).patches ?? []).flatMap(({ patch }) =>
      parse(patch) as Array<{ path: string, value: unknown }>
    )
  const own = settings(containerField('env'))
  const { cache } = loadConfig(own, {}).config
  t.equal(cache.redis.url, null)
  t.equal(cache.disk.path, '/var/cache/varve', 'where the volume is mounted')
  t.ok(cache.disk.maxGb * 1.1 < 12, 'the volume is larger than the disk tier may become')
  t.match(patchesOf('disk').find(({ path }) => path.endsWith('/volumeClaimTemplates'))?.value, [
    { metadata: { name: 'disk' }, spec: { resources: { requests: { storage: '12Gi' } } } }
  ])
  t.equal(patchesOf('disk').find(({ path }) => path.endsWith('/serviceName'))?.value, 'varve-admin')

  const added = patchesOf('redis')
  t.ok(added.every(({ path }) => path === '/spec/template/spec/containers/0/env/-'))
  const { REDIS_PASSWORD: password, VARVE_REDIS: url = '' } = settings(added.map(({ value }) => value))
  t.equal(password, '', 'comes from the Secret')
  const shared = loadConfig({ ...own, VARVE_REDIS: url.replace('$(REDIS_PASSWORD)', 'secret') }, {}).config.cache.redis
  t.equal(new URL(shared.url ?? '').host, 'varve-redis:6379')
  t.match(patchesOf('hpa'), [{ path: '/spec/replicas' }], 'only the autoscaler sets the number')
})

t.test('Kubernetes gets the rules and dashboards unchanged, each small enough to apply', async t => {
  const made = join(t.testdir(), 'rule.yaml')
  await promisify(execFile)(process.execPath, [join(checkoutRoot, 'scripts/prometheus-rule.js'), made])
  t.equal(
    readCheckout('deploy/kubernetes/components/monitoring/prometheus-rule.yaml'),
    readFileSync(made, 'utf8'),
    'run node scripts/prometheus-rule.js'
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
