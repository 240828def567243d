import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import t from 'tap'

const root = resolve(import.meta.dirname, '..')

// Who may import whom: the table of ARCHITECTURE.md. A folder may always import itself.
const mayImport: Record<string, readonly string[]> = {
  'with-timeout': [],
  api: [],
  config: [],
  redis: ['with-timeout'],
  clients: ['redis'],
  cache: ['api', 'redis'],
  upstreams: ['with-timeout', 'api'],
  chain: ['with-timeout', 'api', 'cache', 'upstreams'],
  cluster: ['api', 'redis', 'cache', 'upstreams', 'chain'],
  proxy: ['with-timeout', 'api', 'cache', 'upstreams', 'chain'],
  metrics: ['api', 'redis', 'cache', 'upstreams', 'chain', 'proxy'],
  http: ['api', 'config', 'clients', 'upstreams', 'chain', 'proxy', 'metrics'],
  workers: ['with-timeout', 'api', 'config', 'clients', 'upstreams'],
  app: [
    'with-timeout',
    'api',
    'config',
    'redis',
    'clients',
    'cache',
    'upstreams',
    'chain',
    'cluster',
    'proxy',
    'metrics',
    'http',
    'workers',
    'sandbox'
  ],
  tools: ['with-timeout', 'api', 'upstreams', 'app'],
  cli: ['api', 'config', 'proxy', 'app', 'tools', 'sandbox'],
  sandbox: []
}

// Types alone, which leave nothing to load. The record in Redis and the deciding on generations still know each
// other's.
const mayImportTypes: Record<string, readonly string[]> = { chain: ['cluster'] }

// The one place that may use each of these, so that a change of library is a change of one folder.
const libraries: Record<string, readonly string[]> = {
  fastify: ['http', 'app'],
  '@fastify/http-proxy': ['http'],
  undici: ['upstreams', 'tools'],
  ioredis: ['redis'],
  'lru-cache': ['cache', 'proxy'],
  'prom-client': ['metrics'],
  zod: ['config', 'tools', 'sandbox'],
  yaml: ['config', 'cli', 'sandbox'],
  pino: ['http', 'app']
}

// Files of folders that are else given their clock.
const withClock = ['src/tools/progress-reporter.ts']

const textOf = (file: string): string => readFileSync(join(root, file), 'utf8')
const files = ['src', 'sandbox'].flatMap(folder =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map(name =>
    `${folder}/${name.replaceAll('\\', '/')}`
  )
)
  .filter(file => file.endsWith('.ts'))

/** The folder of src, or file of src itself, that a file belongs to; the embedded node is one beside src. */
function layerOf (file: string): string {
  return file.startsWith('sandbox/') ? 'sandbox' : file.split(/[/.]/, 2)[1] ?? ''
}

interface Import {
  readonly target: string
  /** Whether it takes types alone. */
  readonly isOfTypes: boolean
}

function importsOf (file: string): Import[] {
  const stated = textOf(file).matchAll(
    /^(?:import|export)\s([^;']*?)\s?from '([^']+)'|^import '([^']+)'|await import\('([^']+)'\)/gm
  )
  return [...stated].map(([, names, from, bare, dynamic]) => ({
    target: from ?? bare ?? dynamic ?? '',
    isOfTypes: names !== undefined &&
      (/^\{[^}]*\}$/.exec(names)?.[0] ?? '').slice(1, -1).split(',').every(name => /^\s*type\s/.test(name))
  }))
}

/** The file that one of ours leads to; undefined for a library. */
function fileOf (file: string, target: string): string | undefined {
  if (target === '#sandbox') return 'sandbox/sandbox.ts'
  if (!target.startsWith('.')) return undefined
  return relative(root, resolve(root, dirname(file), target)).replaceAll('\\', '/').replace(/\.js$/, '.ts')
}

t.test('every folder imports only what the table allows', async t => {
  for (const file of files) {
    const layer = layerOf(file)
    t.ok(mayImport[layer], `${file} lies in a folder of the table`)
    for (const { target, isOfTypes } of importsOf(file)) {
      const other = fileOf(file, target)
      if (other === undefined || layerOf(other) === layer) continue
      const allowed = [...mayImport[layer] ?? [], ...isOfTypes ? mayImportTypes[layer] ?? [] : []]
      t.ok(allowed.includes(layerOf(other)), `${file} imports ${target}`)
      if (layerOf(other) === 'sandbox') t.equal(target, '#sandbox', `${file} reaches the embedded node by its name`)
    }
  }
})

t.test('the table itself has no circle, types apart', async t => {
  const done = new Set<string>()
  const visit = (layer: string, path: readonly string[]): void => {
    t.notOk(path.includes(layer), [...path, layer].join(' -> '))
    if (path.includes(layer) || done.has(layer)) return
    for (const other of mayImport[layer] ?? []) visit(other, [...path, layer])
    done.add(layer)
  }
  for (const layer of Object.keys(mayImport)) visit(layer, [])
  t.same([...done].sort(), Object.keys(mayImport).sort())
})

t.test('every library is used in its own folder alone, and what means a read does no input or output', async t => {
  for (const file of files) {
    const layer = layerOf(file)
    for (const { target } of importsOf(file)) {
      if (fileOf(file, target) !== undefined) continue
      if (target.startsWith('node:')) {
        if (layer === 'api' || layer === 'chain') t.equal(target, 'node:crypto', `${file} imports ${target}`)
      } else t.ok(libraries[target]?.includes(layer), `${file} imports ${target}`)
    }
  }
})

t.test('the schemas of the embedded node\'s responses give types everywhere, and are loaded for its document alone', async t => {
  const others = files.filter(name => layerOf(name) === 'sandbox' && !/^sandbox\/(?:schema|openapi)\//.test(name))
  const loading = others.flatMap(file =>
    importsOf(file).filter(({ target, isOfTypes }) => target.includes('schema/') && !isOfTypes).map(({ target }) =>
      `${file} loads ${target}`
    )
  )
  t.ok(others.some(file => importsOf(file).some(({ target }) => target.includes('schema/'))))
  t.same(loading, [])
})

t.test('imports never run in a circle between files', async t => {
  const done = new Set<string>()
  const visit = (file: string, path: readonly string[]): void => {
    t.notOk(path.includes(file), [...path, file].join(' -> '))
    if (path.includes(file) || done.has(file)) return
    for (const { target } of importsOf(file)) {
      const other = fileOf(file, target)
      if (other !== undefined) visit(other, [...path, file])
    }
    done.add(file)
  }
  for (const file of files) visit(file, [])
  t.equal(done.size, files.length)
})

t.test('nothing but the configuration\'s own loader and the entry reads the environment, and no clock is hidden', async t => {
  for (const file of files) {
    const text = textOf(file)
    if (file !== 'src/cli.ts') t.notMatch(text, /process\.env/, file)
    t.notMatch(text, /Date\.now\(/, file)
    if (layerOf(file) !== 'cli' && layerOf(file) !== 'app' && !withClock.includes(file)) {
      t.notMatch(text, /performance\.now\(/, file)
    }
  }
})

t.test('every file can be loaded, so that none is invisible to coverage', async t => {
  // Relative, since what runs beside this file is printed from the sources.
  const loaded = files.filter(name => name !== 'src/cli.ts').map(name => name.replace(/\.ts$/, '.js'))
  for (const file of loaded) t.ok(await import(`../${file}`), file)
})
