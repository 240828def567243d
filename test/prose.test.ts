import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'

interface Prose {
  proseFaults: (text: string) => { count: number, tooLong: string[], faults: string[] }
}

const root = join(import.meta.dirname, '..')
const { proseFaults } = await import(pathToFileURL(join(root, 'scripts/prose.js')).href) as Prose
const { beginsWithQuestion } = await import(pathToFileURL(join(root, 'scripts/trade-words.js')).href) as {
  beginsWithQuestion: (comment: string) => boolean
}
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

t.test('private words and long lines or sentences are found; code, links and markup are no prose', async t => {
  const faultsOf = (...lines: string[]): string[] => proseFaults(lines.join('\n')).faults
  const tooLongOf = (...lines: string[]): string[] => proseFaults(lines.join('\n')).tooLong
  const words = (count: number): string => `W${' w'.repeat(count - 1)}`
  // eslint-disable-next-line varve/trade-words -- the word is what the check looks for
  const privateWord = 'afresh'
  t.match(faultsOf('# A', '', `It is read ${privateWord}.`), [`line 3: "${privateWord}" is private vocabulary`])
  t.match(faultsOf('| a | is', '| it is kept | b |'), ['line 2: "kept" is private vocabulary'])
  t.same(faultsOf('`kept`', '```sh', 'kept', '```', '[again](kept.md)'), [])
  t.match(faultsOf('a'.repeat(121)), ['line 1: 121 columns'])
  t.same(faultsOf('a'.repeat(120), `| ${'a'.repeat(120)} |`, '```', 'a'.repeat(121), '```'), [])
  t.match(tooLongOf(words(26), '', words(25)), ['line 1: 26 words'])
  t.match(tooLongOf(`| a | ${words(26)} |`), ['line 1: 26 words'])
  t.match(tooLongOf('W w w w', ...Array.from({ length: 6 }, () => 'w w w w')), ['line 1: 28 words'], 'wrapped lines')
  t.same(tooLongOf(`- ${words(14)}`, `- ${words(14)}`, '', `**${words(14)}.** ${words(14)}. ${words(14)}`), [])
  t.same(tooLongOf(`${words(24)} \`a b c\``, '', `${words(23)} [a b](c d)`), [])
})

t.test('a comment that starts with a question word is found', async t => {
  for (const comment of ['* Whether it is up.', '*\n   * What one upstream has.', ' how often']) {
    t.ok(beginsWithQuestion(comment), comment)
  }
  for (const comment of ['* Reads what is there.', ' Whole body.', '']) t.notOk(beginsWithQuestion(comment), comment)
})
