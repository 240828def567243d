import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'

interface Prose {
  proseFaults: (text: string) => { count: number, tooLong: string[], faults: string[] }
}

const root = join(import.meta.dirname, '..')
const { proseFaults } = await import(pathToFileURL(join(root, 'scripts/prose.js')).href) as Prose
const mostLong = 0.03
const pages = [
  'README.md',
  'ARCHITECTURE.md',
  'CHANGELOG.md',
  'SECURITY.md',
  'sandbox/README.md',
  'test/README.md',
  'test/cases/README.md',
  ...readdirSync(join(root, 'src')).map(folder => `src/${folder}/README.md`).filter(page =>
    existsSync(join(root, page))
  ),
  ...readdirSync(join(root, 'docs')).filter(name => name.endsWith('.md')).map(name => `docs/${name}`)
]

t.test('README, docs and folder pages use the trade\'s words, in lines of at most 120 columns', async t => {
  t.ok(pages.length > 10)
  for (const page of pages) t.same(proseFaults(readFileSync(join(root, page), 'utf8')).faults, [], page)
})

t.test('at most 3 % of the sentences of README, docs and folder pages have more than 25 words', async t => {
  const all = pages.map(page => ({ page, ...proseFaults(readFileSync(join(root, page), 'utf8')) }))
  const count = all.reduce((sum, { count }) => sum + count, 0)
  const tooLong = all.flatMap(({ page, tooLong }) => tooLong.map(fault => `${page}: ${fault}`))
  t.ok(count > 500, 'sentences are found at all')
  t.ok(tooLong.length <= count * mostLong, `${tooLong.length} of ${count}`, { tooLong })
})

t.test('the README has at most 110 lines of at most 120 columns, code and tables included', async t => {
  const lines = readFileSync(join(root, 'README.md'), 'utf8').trimEnd().split('\n')
  t.ok(lines.length <= 110, String(lines.length))
  t.same(lines.filter(line => line.length > 120), [])
})
