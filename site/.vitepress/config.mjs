import { readFileSync } from 'node:fs'
import { withMermaid } from 'vitepress-plugin-mermaid'

const docs = new URL('../pages/', import.meta.url)
// Address of the files of this release, which scripts/set-repository.js sets.
const { homepage } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))

/** Reads the sections and pages of docs/README.md, so that the site has no second table of contents. */
function sidebar () {
  const [, ...sections] = readFileSync(new URL('README.md', docs), 'utf8').split(/^## /m)
  return sections.flatMap(section => {
    const [title] = section.split('\n', 1)
    const items = [...section.matchAll(/\[([^\]]+)\]\(([a-z-]+)\.md\)/g)].map(([, text, link]) => ({
      text,
      link: `/${link}`
    }))
    return items.length === 0 ? [] : [{ text: title, items }]
  })
}

/** Links to files outside docs, which are no pages of the site, lead to the repository. */
function linkToRepository (markdown) {
  markdown.core.ruler.push('repository-links', ({ tokens }) => {
    for (const { children } of tokens) {
      for (const token of children ?? []) {
        const target = token.type === 'link_open' ? token.attrGet('href') : null
        if (target?.startsWith('../')) token.attrSet('href', `${homepage}${target.slice(3)}`)
        else if (/^[a-z-]+\.yaml$/.test(target ?? '')) token.attrSet('href', `${homepage}docs/${target}`)
      }
    }
  })
}

// Draws the favicon, three layers of sediment.
const icon =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path d="M1 2h14v3H1zm0 5h14v3H1zm0 5h14v3H1z" ' +
  'fill="#0550ae"/></svg>'

export default withMermaid({
  title: 'varve',
  description: 'A caching reverse proxy for the REST API of Aptos-family full nodes',
  head: [['link', { rel: 'icon', href: `data:image/svg+xml,${encodeURIComponent(icon)}` }]],
  base: process.env['SITE_BASE'] ?? '/',
  srcDir: 'pages',
  outDir: 'dist',
  // Serves the sources of the pages as files, because llms.txt links to them.
  srcExclude: ['public/**'],
  cleanUrls: true,
  rewrites: { 'README.md': 'index.md' },
  markdown: { config: linkToRepository },
  themeConfig: {
    search: { provider: 'local' },
    sidebar: sidebar(),
    outline: [2, 3],
    socialLinks: []
  }
})
