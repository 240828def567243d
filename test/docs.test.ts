import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { loadConfig } from '../src/config/load.js'
import { configSchema } from '../src/config/schema.js'
import { endpoints } from '../src/api/endpoints.js'

const root = join(import.meta.dirname, '..')
const text = (...path: string[]): string => readFileSync(join(root, ...path), 'utf8')

const folderPages = [
  'sandbox/README.md',
  ...readdirSync(join(root, 'src')).map(folder => `src/${folder}/README.md`).filter(page =>
    existsSync(join(root, page))
  )
]

function keysOf (value: unknown, path: string[] = []): string[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [path.join('.')]
  return Object.entries(value).flatMap(([key, item]) => keysOf(item, [...path, key]))
}

t.test('config/varve.yaml has every key with its default, and a comment on each', async t => {
  const written: unknown = parse(text('config', 'varve.yaml'))
  t.same(written, configSchema.parse({}))
  t.same(keysOf(written), keysOf(configSchema.parse({})))
  const upstream = keysOf(
    configSchema.parse({ upstreams: [{ name: 'node-a', url: 'http://127.0.0.1:8081' }] }).upstreams[0]
  )
  for (const key of upstream) {
    t.match(text('config', 'varve.yaml'), new RegExp(`^#[ -]+${key}: .+# `, 'm'), `upstreams[].${key}`)
  }
})

t.test('every ready example is a valid configuration', async t => {
  for (const file of readdirSync(join(root, 'config')).filter(name => name.endsWith('.yaml'))) {
    t.ok(
      loadConfig({
        GATEWAY_KEY: 'k',
        ARCHIVE_KEY: 'k',
        REDIS_PASSWORD: 'p',
        WALLET_KEY: 'w',
        EXPLORER_KEY: 'e',
        REDIS_URL: 'redis://h'
      }, { config: join(root, 'config', file) }),
      file
    )
  }
})

t.test('every file that the README or another page links to or names exists', async t => {
  for (
    const page of [
      'README.md',
      'ARCHITECTURE.md',
      'CONTRIBUTING.md',
      'SECURITY.md',
      'test/README.md',
      ...folderPages,
      ...readdirSync(join(root, 'docs')).filter(name => name.endsWith('.md')).map(name => `docs/${name}`)
    ]
  ) {
    for (const [, link = ''] of text(page).matchAll(/\]\(([^)#:]+)\)/g)) {
      t.ok(text(dirname(page), link), `${page}: ${link}`)
    }
    for (
      const [path] of text(page).matchAll(
        /\b(?:(?:src|test|config|bench|sandbox|api|app|cache|chain|cli|clients|cluster|http|metrics|proxy|redis|tools|upstreams|workers)\/)+[a-z/-]+\.(?:ts|yaml|md)/g
      )
    ) {
      t.ok(existsSync(join(root, path)) || existsSync(join(root, 'src', path)), `${page}: ${path}`)
    }
  }
})

t.test('every page of docs begins with its title', async t => {
  for (const name of readdirSync(join(root, 'docs')).filter(name => name.endsWith('.md'))) {
    t.match(text('docs', name), /^# \S.*\n\n\S/, name)
  }
})

t.test('every table of docs begins with a head, so no empty line splits one', async t => {
  for (const name of readdirSync(join(root, 'docs')).filter(name => name.endsWith('.md'))) {
    const lines = text('docs', name).replace(/^```[^]*?^```$/gm, '').split('\n')
    const begins = lines.filter((line, at) => line.startsWith('|') && lines[at - 1]?.startsWith('|') !== true)
    t.same(begins.filter(line => lines[lines.indexOf(line) + 1]?.startsWith('|---') !== true), [], name)
  }
})

t.test('ARCHITECTURE.md has at most 200 lines of at most 120 columns, and links each folder page', async t => {
  const lines = text('ARCHITECTURE.md').trimEnd().split('\n')
  t.ok(lines.length <= 200, `${lines.length} lines`)
  t.same(lines.filter(line => line.length > 120), [])
  for (const page of folderPages) t.ok(text('ARCHITECTURE.md').includes(`](${page})`), page)
  const [, diagram = ''] = /^```\n([^]*?)^```/m.exec(text('ARCHITECTURE.md')) ?? []
  const drawn = [...diagram.matchAll(/\b[a-z]+\/[a-z-]+/g)].map(([file]) => `src/${file}.ts`)
  t.ok(drawn.length > 10)
  t.same(drawn.filter(file => !existsSync(join(root, file))), [], 'the diagram names files that exist')
  const folders = readdirSync(join(root, 'src'), { withFileTypes: true }).filter(entry => entry.isDirectory())
  t.same(folders.map(({ name }) => `src/${name}/README.md`).filter(page => !folderPages.includes(page)), [])
})

t.test('each law is cited with its number and its name', async t => {
  const laws = new Map(
    [...text('ARCHITECTURE.md').matchAll(/^(\d+)\. \*\*(\S+)/gm)].map(([, law, word = '']) => [law, word.toLowerCase()])
  )
  t.ok(laws.size > 10)
  let cited = 0
  for (const folder of ['src', 'sandbox', 'bench', 'scripts']) {
    for (const name of readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })) {
      if (!/\.(?:js|ts|md)$/.test(name)) continue
      // A citation may continue behind the comment mark of the next line.
      const source = text(folder, name).replace(/\n\s*(?:\/\/|\*)?\s*/g, ' ')
      for (const [citation, law, word] of source.matchAll(/\blaw (\d+)(?:: ([a-z"-]+))?/gi)) {
        cited++
        t.equal(word, laws.get(law), `${folder}/${name}: ${citation}; expected "law ${law}: " and its name`)
      }
    }
  }
  t.ok(cited > 50, 'citations are found at all')
})

t.test('each folder page lists every file of its folder, in at most 60 lines of 120 columns', async t => {
  t.ok(folderPages.length > 1)
  for (const page of folderPages) {
    const lines = text(page).trimEnd().split('\n')
    t.ok(lines.length <= 60, `${page}: ${lines.length} lines`)
    t.same(lines.filter(line => line.length > 120), [], page)
    const named = [...text(page).matchAll(/`([^`\n]+)`/g)].map(([, name = '']) => name)
    const files = readdirSync(join(root, dirname(page)), { recursive: true, encoding: 'utf8' })
    t.same(
      files.filter(file => file.endsWith('.ts') && !named.some(name => covers(name, file))),
      [],
      `${page} lists every file: add a line for each of these, or remove it`
    )
    const rows = lines.filter(line => line.startsWith('| `')).map(line => line.split(' | ', 1).join(''))
    const missing = rows.flatMap(row => [...row.matchAll(/`([^`]+)`/g)]).map(([, name = '']) => name).filter(name =>
      !files.some(file => covers(name, file))
    )
    t.same(missing, [], `${page} lists only files that exist`)
  }
})

/** Returns true if a name in a folder page stands for a file: its path, a folder of it, or a pattern with stars. */
function covers (name: string, file: string): boolean {
  if (name.endsWith('/')) return file.startsWith(name)
  const pattern = name.replace(/[.+?()[\]{}|^$\\]/g, '\\$&').replaceAll('*', '[^/]*')
  return new RegExp(`^${pattern}$`).test(file)
}

t.test('docs/what-is-cached.md has a row for every read, with its path and its name in metrics', async t => {
  for (const { name, method, path } of endpoints) {
    const shape = path.map(part => typeof part === 'string' ? part : '\\{[a-z_]+\\}').join('/')
    t.match(
      text('docs', 'what-is-cached.md'),
      new RegExp(`^\\| \`${method} /${shape}\`[^|]* \\(\`${name}\`\\) \\| `, 'm'),
      name
    )
  }
})

t.test('each promise of SECURITY.md has tests that exist', async t => {
  const proofs = parse(text('test', 'security.yaml')) as ReadonlyArray<{
    readonly promise: string,
    readonly provedBy: ReadonlyArray<{ readonly file: string, readonly title?: string }>
  }>
  const [, promised = ''] = text('SECURITY.md').split('## What varve promises')
  const promises = [...promised.matchAll(/^- ([^]+?)\.$(?=\n\n|\n- |\n$)/gm)].map(([, promise = '']) =>
    promise.replace(/\s+/g, ' ')
  )
  t.same(promises, proofs.map(({ promise }) => promise))
  for (const { promise, provedBy } of proofs) {
    for (const { file, title } of provedBy) {
      t.ok(existsSync(join(root, file)), `${promise}: ${file}`)
      if (title === undefined) continue
      const source = text(file).replace(/\bt\.test\(\s+/g, 't.test(')
      t.ok(source.includes(`t.test('${title.replaceAll('\'', '\\\'')}`), `${promise}: ${title}`)
    }
  }
})

t.test('every test that may be skipped is listed with its reason in test/README.md', async t => {
  const [, section = ''] = text('test/README.md').split('## Skipped tests')
  const listed = [...section.split('## ')[0]?.matchAll(/`([\w/.-]+\.test\.ts)`/g) ?? []].map(([, file]) => file)
  const files = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
  const skipping = files.filter(file =>
    file.endsWith('.test.ts') && /^const skip =|[{\s]skip:\s/m.test(text('test', file))
  )
  t.same(skipping.sort(), listed.sort())
})

t.test('every cited heading of the page on full nodes exists', async t => {
  const headings = new Set([...text('docs', 'node-behaviour.md').matchAll(/^## (.+)$/gm)].map(([, heading]) => heading))
  const folders = ['src', 'sandbox', 'test', 'bench', 'scripts'].filter(folder => existsSync(join(root, folder)))
  const files = folders.flatMap(folder =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map(file => join(folder, file))
  )
  const cited = new Set<string | undefined>()
  for (const file of files.filter(name => /\.(?:[cm]?[jt]s|jsonl)$/.test(name))) {
    // A citation may continue behind the comment mark of the next line; cases escape its quotes.
    const source = text(file).replace(/\n\s*(?:\/\/|\*)\s*/g, ' ').replaceAll('\\"', '"')
    for (const [, heading] of source.matchAll(/\bdocs\/node-behaviour\.md\b(?:, "([^"]+)")?/g)) {
      cited.add(heading)
      t.ok(heading !== undefined && headings.has(heading), `${file}: ${heading ?? 'no heading is named'}`)
    }
  }
  t.ok(cited.size > 15, 'citations are found at all')
})

t.test('the changelog has the form of Keep a Changelog, and its first release changes nothing', async t => {
  const { version } = JSON.parse(text('package.json')) as { version: string }
  const sections = text('CHANGELOG.md').split(/^## /m).slice(1)
  const [newest = ''] = sections
  for (const section of sections) t.match(section, /^\[\d+\.\d+\.\d+\] - (?:\d{4}-\d{2}-\d{2}|unreleased)\n/)
  t.ok(newest.startsWith(`[${version}] - `), 'the newest section is of the version of package.json')
  const kinds = (section: string): string[] => [...section.matchAll(/^### (.+)$/gm)].map(([, kind = '']) => kind)
  // No release was before the first, so nothing of one has changed; but its commits were public.
  t.same(kinds(sections.at(-1) ?? ''), ['Security', 'Added'])
  const known = ['Added', 'Changed', 'Deprecated', 'Removed', 'Fixed', 'Security']
  t.same(sections.flatMap(kinds).filter(kind => !known.includes(kind)), [])
})
