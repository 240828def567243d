import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse, parseAllDocuments } from 'yaml'
import { inFlightMbOf } from '../../src/config/units.js'
import { memoryNeededMb } from '../support/memory.js'
import { type Config, configSchema } from '../../src/config/schema.js'

const root = join(import.meta.dirname, '../..')
const textOf = (file: string): string => readFileSync(join(root, file), 'utf8')
const configOf = (maxMb: number, inFlightMb: number | null = null, workers = 1): Config =>
  configSchema.parse({ workers, cache: { memory: { maxMb } }, limits: { inFlightMb } })

t.test('bytes in flight are 64 MB for each worker, a quarter of a larger cache, or as configured', async t => {
  t.equal(inFlightMbOf(configOf(256)), 64)
  t.equal(inFlightMbOf(configOf(1024)), 256)
  t.equal(inFlightMbOf(configOf(256, null, 4)), 256)
  t.equal(inFlightMbOf(configOf(256, 16, 4)), 16)
  t.equal(inFlightMbOf(configSchema.parse({ cache: { maxEntryMb: 100 } })), 200, 'two of the largest entries fit')
})

t.test('memory needed is 100 MB for each process, 1.75 of the cache, and the bytes in flight', async t => {
  t.equal(memoryNeededMb(configOf(256)), 100 + 448 + 64)
  t.equal(memoryNeededMb(configOf(1024)), 100 + 1792 + 256)
  t.equal(memoryNeededMb(configOf(256, 128, 2)), 300 + 448 + 128)
})

t.test('following needs 17 MB for each worker', async t => {
  const following = (workers: number): Config =>
    configSchema.parse({ workers, follow: { mode: 'on' }, limits: { inFlightMb: 64 } })
  t.equal(memoryNeededMb(following(1)), 100 + 448 + 64 + 17)
  t.equal(memoryNeededMb(following(4)), 500 + 448 + 64 + 68)
  t.match(textOf('docs/tiers-and-sizes.md'), /adds 17 MB for each worker/)
})

t.test('docs state the formula with the numbers that it gives', async t => {
  const rows = [...textOf('docs/tiers-and-sizes.md').matchAll(/^\| ([\d,]+) \| (\d+) \| (\d+) \| ([\d,]+) \|$/gm)]
  t.ok(rows.length >= 4)
  for (const [, maxMb = '', workers, inFlightMb, needed = ''] of rows) {
    const config = configOf(Number(maxMb.replace(',', '')), null, Number(workers))
    t.equal(inFlightMbOf(config), Number(inFlightMb))
    t.equal(memoryNeededMb(config), Number(needed.replace(',', '')))
  }
  const large = [
    ...textOf('docs/tiers-and-sizes.md').matchAll(
      /^\| ([\d,]+) \| (?:none|`--max-old-space-size=(\d+)`) \| ([\d,]+) MB \|$/gm
    )
  ]
  t.ok(large.length >= 3)
  for (const [, maxMb = '', heapMb, needed = ''] of large) {
    const mb = Number(maxMb.replace(',', ''))
    t.equal(memoryNeededMb(configOf(mb)), Number(needed.replace(',', '')))
    t.equal(heapMb, mb > 2048 ? String(mb) : undefined, 'beyond 2 GB the heap needs a limit of its own')
  }
})

const bytesOf = (text: string): number => {
  const [, count = '', unit = ''] = /^(\d+)(\w*)$/.exec(text) ?? []
  return Number(count) * ({ m: 1, mi: 1, g: 1024, gi: 1024 }[unit.toLowerCase()] ?? NaN)
}

t.test('every manifest allows the memory that its configuration needs, and at most half more', async t => {
  const kubernetes = parseAllDocuments(textOf('deploy/kubernetes/base/deployment.yaml')).map(one => one.toJS())
    .find(({ kind }) => kind === 'Deployment')
  const manifests: Array<[string, unknown, string]> = [
    [
      'deploy/kubernetes',
      parse(textOf('deploy/kubernetes/base/varve.yaml')),
      kubernetes.spec.template.spec.containers[0].resources.limits.memory
    ],
    [
      'deploy/systemd',
      parse(textOf('deploy/systemd/varve.yaml')),
      /^MemoryMax=(\w+)$/m.exec(textOf('deploy/systemd/varve.service'))?.[1] ?? ''
    ],
    ['docker-compose.yml', {}, parse(textOf('docker-compose.yml')).services.varve.mem_limit]
  ]
  for (const [name, file, limit] of manifests) {
    const { cache = {} } = file as { cache?: { memory?: object, disk?: object } }
    // Compose and Kubernetes name the folder in the environment.
    const disk = { path: '/var/cache/varve', ...cache.disk }
    const needed = memoryNeededMb(configSchema.parse({ cache: { memory: cache.memory ?? {}, disk } }))
    t.match(textOf('docs/tiers-and-sizes.md'), ` ${needed.toLocaleString('en')} MB`)
    t.ok(bytesOf(limit) >= needed, `${name} allows ${limit}, and needs ${needed} MB`)
    t.ok(bytesOf(limit) <= needed * 1.5, `${name} allows ${limit}, and needs ${needed} MB`)
  }
})
