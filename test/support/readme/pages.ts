import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type CodeBlock, blocksIn } from './code-blocks.js'

/** A documentation page with its blocks. */
export interface Page {
  readonly name: string
  readonly blocks: readonly CodeBlock[]
}

/** Returns the README and every page of docs/, in reading order. */
export function pagesIn (root: string): Page[] {
  const names = [
    'README.md',
    ...readdirSync(join(root, 'docs')).filter(name => name.endsWith('.md')).sort().map(name => `docs/${name}`)
  ]
  return names.map(name => ({ name, blocks: blocksIn(name, readFileSync(join(root, name), 'utf8')) }))
}
