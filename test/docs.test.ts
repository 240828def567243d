import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { loadConfig } from '../src/config/load.js'
import { configSchema } from '../src/config/schema.js'
import { endpoints } from '../src/api/endpoints.js'

const root = join(import.meta.dirname, '..')
const text = (...path: string[]): string => readFileSync(join(root, ...path), 'utf8')

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

t.test('the README stays under 200 lines, and every file that it or another page links to exists', async t => {
  t.ok(text('README.md').split('\n').length < 200)
  for (
    const page of [
      'README.md',
      'ARCHITECTURE.md',
      'SECURITY.md',
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

t.test('docs/what-is-kept.md has a row for every read, with its path and its name in metrics', async t => {
  for (const { name, method, path } of endpoints) {
    const shape = path.map(part => typeof part === 'string' ? part : '\\{[a-z_]+\\}').join('/')
    t.match(
      text('docs', 'what-is-kept.md'),
      new RegExp(`^\\| \`${method} /${shape}\`[^|]* \\(\`${name}\`\\) \\| `, 'm'),
      name
    )
  }
})

t.test('SECURITY.md names for each promise tests that exist', async t => {
  const rows = text('SECURITY.md').split('\n').filter(line => line.startsWith('| ') && line.includes('`test/'))
  t.ok(rows.length > 20)
  for (const row of rows) {
    const [promise = '', proofs = ''] = row.replace(/^\| | \|$/g, '').split(' | ')
    for (const proof of proofs.split(' · ')) {
      const [, file = '', title = ''] = /^`(test\/[a-z/-]+\.test\.ts)` (.+)$/.exec(proof) ?? []
      t.ok(file !== '' && existsSync(join(root, file)), `${promise}: ${proof}`)
      if (title !== '*all*') {
        t.ok(
          text(file).replace(/\bt\.test\(\s+/g, 't.test(').includes(`t.test('${title.replaceAll('\'', '\\\'')}`),
          `${promise}: ${proof}`
        )
      }
    }
  }
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
