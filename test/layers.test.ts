import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import t from 'tap'
import ts from 'typescript'

const root = resolve(import.meta.dirname, '..')

// Reads the allowed imports from the table of ARCHITECTURE.md; a folder may always import itself.
const mayImport = importTableIn(readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8'))

function importTableIn (text: string): Readonly<Record<string, readonly string[]>> {
  const section = /^## Who may import whom$([^]*?)^## /m.exec(text)?.[1] ?? ''
  const table: Record<string, readonly string[]> = {}
  for (const [, folder = '', allowed = ''] of section.matchAll(/^\| `([a-z-]+)` \| (.+) \|$/gm)) {
    const names = [...allowed.matchAll(/`([a-z-]+)`/g)].map(([, name = '']) => name)
    table[folder] = allowed === 'every folder above' ? Object.keys(table) : names
  }
  return table
}

// Folders that may use each library, so that changing a library changes one folder.
const libraries: Record<string, readonly string[]> = {
  fastify: ['http', 'app'],
  '@fastify/http-proxy': ['http'],
  undici: ['upstreams', 'cli'],
  ioredis: ['redis'],
  'lru-cache': ['cache', 'proxy'],
  'prom-client': ['metrics'],
  zod: ['config', 'sandbox'],
  yaml: ['config', 'cli', 'sandbox'],
  pino: ['http', 'app']
}

const textOf = (file: string): string => readFileSync(join(root, file), 'utf8')
const files = ['src', 'sandbox'].flatMap(folder =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map(name =>
    `${folder}/${name.replaceAll('\\', '/')}`
  )
)
  .filter(file => file.endsWith('.ts'))

/** Returns the folder in src, or the file of src itself, that a file belongs to; the sandbox is a folder beside src. */
function layerOf (file: string): string {
  return file.startsWith('sandbox/') ? 'sandbox' : file.split(/[/.]/, 2)[1] ?? ''
}

interface Import {
  readonly target: string
  readonly isOfTypes: boolean
  /** True where only a call loads the file. */
  readonly isLazy: boolean
}

function importsOf (file: string): Import[] {
  const stated = textOf(file).matchAll(
    /^(?:import|export)\s([^;']*?)\s?from '([^']+)'|^import '([^']+)'|await import\('([^']+)'\)/gm
  )
  return [...stated].map(([, names, from, bare, dynamic]) => ({
    target: from ?? bare ?? dynamic ?? '',
    isLazy: dynamic !== undefined,
    isOfTypes: names !== undefined &&
      (/^\{[^}]*\}$/.exec(names)?.[0] ?? '').slice(1, -1).split(',').every(name => /^\s*type\s/.test(name))
  }))
}

/** Returns the file of an import; undefined for a library. */
function fileOf (file: string, target: string): string | undefined {
  if (target === '#sandbox') return 'sandbox/sandbox.ts'
  if (!target.startsWith('.')) return undefined
  return relative(root, resolve(root, dirname(file), target)).replaceAll('\\', '/').replace(/\.js$/, '.ts')
}

t.test('every folder imports only what the table allows', async t => {
  t.ok(Object.keys(mayImport).length > 10, 'the table is found')
  for (const file of files) {
    const layer = layerOf(file)
    t.ok(mayImport[layer], `${file} lies in a folder of the table`)
    for (const { target } of importsOf(file)) {
      const other = fileOf(file, target)
      if (other === undefined || layerOf(other) === layer) continue
      t.ok(mayImport[layer]?.includes(layerOf(other)), `${file} imports ${target}`)
      if (layerOf(other) === 'sandbox') t.equal(target, '#sandbox', `${file} imports the sandbox by its name`)
    }
  }
})

t.test('the import table has no cycle', async t => {
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

t.test('every library is used in its own folder only, and api and chain do no input or output', async t => {
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

// Members and messages that Node keeps to itself, and listeners that others added.
const nodeInternals = [
  /\.(?:removeAllListeners|removeListener|rawListeners|listeners)\(/,
  /\._[a-z]\w*|'_[a-z]\w*' in\b|internalMessage/,
  /\bemit\('(?:pause|resume|request|connection|data)'/
]

t.test('only node.ts relies on undocumented parts of Node.js', async t => {
  const using = files.filter(file => file.startsWith('src/') && nodeInternals.some(each => each.test(textOf(file))))
  t.same(using, ['src/node.ts'])
})

t.test('tracing gives types everywhere, and is loaded only if it has a collector', async t => {
  const isTracing = (file = ''): boolean => layerOf(file) === 'tracing'
  const importing = files.filter(file => !isTracing(file)).flatMap(file =>
    importsOf(file).filter(({ target }) => isTracing(fileOf(file, target))).map(kind => ({ file, ...kind }))
  )
  t.ok(importing.some(({ isOfTypes }) => isOfTypes))
  t.same(importing.filter(({ isOfTypes }) => !isOfTypes).map(({ file, isLazy }) => [file, isLazy]), [[
    'src/app/proxy-server.ts',
    true
  ]])
})

t.test('a worker loads no schema: it gets its configuration parsed', async t => {
  const loaded = new Set<string>()
  const visit = (file: string): void => {
    if (loaded.has(file)) return
    loaded.add(file)
    for (const { target, isOfTypes, isLazy } of files.includes(file) ? importsOf(file) : []) {
      if (!isOfTypes && !isLazy) visit(fileOf(file, target) ?? target)
    }
  }
  for (const file of ['src/cli/main.ts', 'src/app/worker.ts']) visit(file)
  t.ok(loaded.has('fastify') && loaded.has('src/proxy/serve-read.ts'))
  t.notOk(loaded.has('zod'))
})

// Paths, header names and error codes of the node.
const dialect = new RegExp(
  [
    '/v1(?![0-9])',
    'x-(?:aptos|node)-',
    '-ledger-|-cursor\\b|gas-used|archival-endpoint',
    '_not_found\\b|(?:version|block)_pruned',
    'web_framework_error|api_disabled|internal_error|invalid_input'
  ].join('|')
)

// A check of a URL that a person types; the configuration may import nothing.
const forPeople = ['src/config/schema.ts']

/** Returns the literals of a source that spell the node's API, except messages: they have spaces. */
function dialectIn (source: string): string[] {
  const found: string[] = []
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) return
    const text = literalOf(node)
    if (text !== undefined && dialect.test(text)) found.push(text)
    ts.forEachChild(node, visit)
  }
  visit(ts.createSourceFile('', source, ts.ScriptTarget.Latest, true))
  return found
}

/** Returns the text of a pattern, of a string, or of a template without its values; undefined for a message. */
function literalOf (node: ts.Node): string | undefined {
  if (ts.isRegularExpressionLiteral(node)) return node.text.replaceAll('\\', '')
  const text = ts.isStringLiteralLike(node)
    ? node.text
    : ts.isTemplateExpression(node)
    ? [node.head, ...node.templateSpans.map(({ literal }) => literal)].map(({ text }) => text).join('')
    : undefined
  return text?.includes(' ') === true ? undefined : text
}

t.test('only api/ spells paths, headers and error codes of the node', async t => {
  const outside = files.filter(file => !['api', 'sandbox'].includes(layerOf(file)) && !forPeople.includes(file))
  // The path of a collector is none of the node.
  for (const file of outside) t.same(dialectIn(textOf(file)).filter(text => text !== '/v1/traces'), [], file)
  t.ok(files.some(file => layerOf(file) === 'api' && dialectIn(textOf(file)).length > 0))
})

t.test('no files import each other in a cycle', async t => {
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

t.test('a file under 40 lines that one file of its folder imports is part of that file, if it fits', async t => {
  const linesOf = (file: string): number => textOf(file).split('\n').length - 1
  const importers = new Map<string, Set<string>>()
  for (const file of files) {
    for (const { target } of importsOf(file)) {
      const other = fileOf(file, target)
      if (other !== undefined) importers.set(other, (importers.get(other) ?? new Set()).add(file))
    }
  }
  // Leaves files of 300 lines as they are.
  const isPartOf = (file: string, importer: string): boolean =>
    linesOf(file) < 40 && dirname(importer) === dirname(file) && linesOf(file) + linesOf(importer) <= 300
  const parts = [...importers].filter(([file, [importer = '', ...others]]) =>
    others.length === 0 && isPartOf(file, importer)
  )
  t.same(parts.map(([file, by]) => `${file} is part of ${[...by].join()}`), [])
})

t.test('only the configuration loader and the entry read the environment, and clocks are injected', async t => {
  for (const file of files) {
    const text = textOf(file)
    if (file !== 'src/cli.ts') t.notMatch(text, /process\.env/, file)
    t.notMatch(text, /Date\.now\(/, file)
    if (layerOf(file) !== 'cli' && layerOf(file) !== 'app') {
      t.notMatch(text, /performance\.now\(/, file)
    }
  }
})

t.test('every file can be loaded, so that coverage sees all', async t => {
  // Relative paths, since the code beside this file is compiled from the sources.
  const loaded = files.filter(name => name !== 'src/cli.ts').map(name => name.replace(/\.ts$/, '.js'))
  for (const file of loaded) t.ok(await import(`../${file}`), file)
})
