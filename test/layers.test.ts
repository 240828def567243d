import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import t from 'tap'

const src = resolve(import.meta.dirname, '../src')

// Who may import whom: the table of ARCHITECTURE.md. A folder may always import itself.
const mayImport: Record<string, readonly string[]> = {
  within: [],
  'lines-in': [],
  names: ['within'],
  ledger: [],
  reads: ['ledger'],
  redis: ['within', 'names'],
  cache: ['redis', 'reads', 'ledger'],
  clients: ['redis'],
  nodes: ['within', 'names', 'reads', 'ledger'],
  proxy: ['within', 'cache', 'nodes', 'reads', 'ledger'],
  replicas: ['within', 'cache', 'nodes', 'redis', 'reads', 'ledger'],
  config: [],
  metrics: ['proxy', 'cache', 'nodes', 'redis', 'reads', 'ledger'],
  server: ['proxy', 'clients', 'nodes', 'reads', 'ledger', 'config', 'metrics'],
  sandbox: [],
  warm: ['nodes', 'reads'],
  moving: ['replicas', 'cache', 'redis', 'reads', 'ledger'],
  replay: ['within', 'lines-in', 'reads'],
  workers: ['within', 'clients', 'config', 'nodes', 'reads', 'ledger'],
  cli: ['within', 'names', 'lines-in', 'server', 'proxy', 'replicas', 'cache', 'clients', 'nodes', 'redis', 'reads', 'ledger', 'config', 'metrics', 'sandbox', 'warm', 'moving', 'replay', 'workers']
}

// The one place that may use each of these, so that a change of library is a change of one folder.
const libraries: Record<string, readonly string[]> = {
  fastify: ['server', 'cli'],
  '@fastify/http-proxy': ['server'],
  '@fastify/rate-limit': ['server'],
  undici: ['nodes', 'warm'],
  ioredis: ['redis'],
  'lru-cache': ['cache'],
  'prom-client': ['metrics'],
  zod: ['config', 'sandbox', 'replay'],
  yaml: ['config', 'cli', 'sandbox'],
  pino: ['server', 'cli']
}

const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter(file => file.endsWith('.ts'))
const layerOf = (file: string): string => file.split(/[/\\.]/, 1).join('')
const importsOf = (file: string): string[] =>
  [...readFileSync(join(src, file), 'utf8').matchAll(/^(?:import|export)\s[^;]*?from '([^']+)'|^import '([^']+)'|await import\('([^']+)'\)/gm)].map(match => match[1] ?? match[2] ?? match[3] ?? '')

t.test('every folder imports only what the table allows', async t => {
  for (const file of files) {
    const layer = layerOf(file)
    t.ok(mayImport[layer], `${file} lies in a folder of the table`)
    for (const target of importsOf(file)) {
      if (!target.startsWith('.')) continue
      const other = layerOf(relative(src, resolve(src, dirname(file), target)))
      t.ok(other === layer || mayImport[layer]?.includes(other), `${file} imports ${target}`)
    }
  }
})

t.test('every library is used in its own folder alone, the embedded node uses none but those of its schemas and its document, and what means a read does no input or output', async t => {
  for (const file of files) {
    const layer = layerOf(file)
    for (const target of importsOf(file).filter(name => !name.startsWith('.'))) {
      if (target.startsWith('node:')) {
        if (layer === 'reads' || layer === 'ledger') t.equal(target, 'node:crypto', `${file} imports ${target}`)
      } else t.ok(libraries[target]?.includes(layer), `${file} imports ${target}`)
    }
  }
})

t.test('the schemas of the embedded node\'s answers give types everywhere, and are loaded for its document alone', async t => {
  for (const file of files.filter(name => layerOf(name) === 'sandbox' && !/^sandbox.(?:schema|openapi)/.test(name))) {
    const loaded = [...readFileSync(join(src, file), 'utf8').matchAll(/^(?:import|export) \{([^}]+)\} from '.*schema\/[^']+'/gm)].flatMap(match => String(match[1]).split(','))
    t.same(loaded.filter(name => !/^ type /.test(` ${name.trim()}`)), [], file)
  }
})

t.test('imports never run in a circle between files', async t => {
  const done = new Set<string>()
  const visit = (file: string, path: readonly string[]): void => {
    t.notOk(path.includes(file), [...path, file].join(' -> '))
    if (path.includes(file) || done.has(file)) return
    for (const target of importsOf(file).filter(name => name.startsWith('.'))) visit(relative(src, resolve(src, dirname(file), target)).replace(/\.js$/, '.ts'), [...path, file])
    done.add(file)
  }
  for (const file of files) visit(file, [])
  t.equal(done.size, files.length)
})

t.test('nothing but the configuration\'s own loader and the entry reads the environment, and no clock is hidden', async t => {
  for (const file of files) {
    const text = readFileSync(join(src, file), 'utf8')
    if (file !== 'cli.ts') t.notMatch(text, /process\.env/, file)
    t.notMatch(text, /Date\.now\(/, file)
    if (layerOf(file) !== 'cli') t.notMatch(text, /performance\.now\(/, file)
  }
})

t.test('every file can be loaded, so that none is invisible to coverage', async t => {
  for (const file of files.filter(name => name !== 'cli.ts')) t.ok(await import(join(src, file)), file)
})

t.test('a file holds one idea: none is longer than 200 lines', async t => {
  for (const file of files) t.ok(readFileSync(join(src, file), 'utf8').split('\n').length <= 200, file)
})
