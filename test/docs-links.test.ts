import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import t from 'tap'

const root = join(import.meta.dirname, '..')
const pages = [
  ...readdirSync(root).filter(name => name.endsWith('.md')),
  'bench/NOTES.md',
  'sandbox/README.md',
  'test/README.md',
  ...readdirSync(join(root, 'src')).map(folder => `src/${folder}/README.md`).filter(page =>
    existsSync(join(root, page))
  ),
  ...readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' }).filter(name => name.endsWith('.md')).map(
    name => join('docs', name)
  )
]

/** Returns the prose of a page: links and # signs in code do not count. */
function proseIn (markdown: string): string {
  return markdown.replace(/^(```+|~~~+)[^]*?^\1`*$/gm, '')
}

/** Returns the anchors that forges make of the headings; equal headings after the first get a number. */
function anchorsIn (markdown: string): Set<string> {
  const anchors = new Set<string>()
  for (const [, heading = ''] of proseIn(markdown).matchAll(/^#{1,6} +(.+?) *#*$/gm)) {
    const slug = heading.replace(/\]\([^)]*\)/g, '').toLowerCase().replace(/[^\p{L}\p{N}\p{M}_ -]/gu, '').replaceAll(
      ' ',
      '-'
    )
    let anchor = slug
    for (let nth = 1; anchors.has(anchor); nth++) anchor = `${slug}-${nth}`
    anchors.add(anchor)
  }
  return anchors
}

/** Returns the targets of links within this repository, pictures and definitions included. */
function linksIn (markdown: string): string[] {
  const prose = proseIn(markdown).replace(/`[^`\n]*`/g, '')
  const links = [
    ...prose.matchAll(
      /\]\(<?([^)\s>]*)>?(?: "[^"]*")?\)|^ {0,3}\[[^\]]+\]: *<?([^\s>]+)|(?:href|src|srcset)="([^"]*)"/gm
    )
  ]
  return links.map(([, inline, defined, attribute]) => inline ?? defined ?? attribute ?? '').filter(link =>
    !/^[a-z][a-z0-9+.-]*:|^\/\//i.test(link)
  )
}

/** Returns why a link leads nowhere; undefined for one that leads somewhere. */
function whyNowhere (page: string, link: string, read: (path: string) => string | undefined): string | undefined {
  const [path = '', anchor] = link.split('#', 2)
  const target = path === '' ? page : relative(root, resolve(root, dirname(page), decodeURIComponent(path)))
  if (link === '' || target.startsWith('..')) return 'it leads out of the repository'
  const text = read(target)
  if (text === undefined) return `there is no ${target}`
  return anchor === undefined || anchorsIn(text).has(anchor) ? undefined : `${target} has no heading #${anchor}`
}

function textOf (path: string): string | undefined {
  const file = join(root, path)
  if (!existsSync(file)) return undefined
  return path.endsWith('.md') ? readFileSync(file, 'utf8') : ''
}

t.test('every link and anchor of the README, of docs and of the pages beside them has a target', async t => {
  t.ok(pages.length > 6 && pages.includes('README.md'))
  let links = 0
  for (const page of pages) {
    for (const link of linksIn(textOf(page) ?? '')) {
      links++
      t.equal(whyNowhere(page, link, textOf), undefined, `${page}: ${link}`)
    }
  }
  t.ok(links > 20, 'links are found at all')
})

t.test('every page of docs is reachable from docs/README.md', async t => {
  const reached = new Set(['docs/README.md'])
  for (const page of reached) {
    for (const link of linksIn(textOf(page) ?? '')) {
      const path = relative(root, resolve(root, dirname(page), link.split('#', 1).join('')))
      if (/^docs\/.*\.md$/.test(path) && existsSync(join(root, path))) reached.add(path)
    }
  }
  t.same(pages.filter(page => page.startsWith('docs/') && !reached.has(page)), [])
})
