import { readdirSync, readFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { certificate, certificateKey } from '../certificate.js'

/** A code block of a page. */
export interface CodeBlock {
  readonly page: string
  /** First line. */
  readonly line: number
  readonly language: string
  readonly text: string
  /** Author's reason for not running it. */
  readonly skipReason: string | undefined
  /** File name under which later blocks use it. */
  readonly file: string | undefined
  /** Exit code of its last command. */
  readonly exitCode: number
  /** Expected output, as the page shows it. */
  readonly expectedOutput: ExpectedOutput | undefined
}

/** Output of commands as a page shows it. */
export interface ExpectedOutput {
  readonly text: string
  /** True if any number may differ; otherwise only long ones may, such as versions and times. */
  readonly numbersDiffer: boolean
}

/** Author's instructions for a block in HTML comments. */
interface BlockOptions {
  notRun?: string
  file?: string
  exitCode?: number
  numbersDiffer?: true
}

/** Actions by language; blocks of other languages are for reading only. */
export const blockActions = { sh: 'run', console: 'run', yaml: 'check', promql: 'check', json: 'check' } as const

/** A language with an action. */
export type BlockLanguage = keyof typeof blockActions

/** Returns the blocks of a page in order; an unnamed block directly after commands is their output. */
export function blocksIn (page: string, text: string): CodeBlock[] {
  const blocks: CodeBlock[] = []
  const lines = text.split('\n')
  let options: BlockOptions = {}
  // Tracks the block directly above, because only it can have output.
  let above: CodeBlock | undefined
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at] ?? ''
    const [, indent = '', fence, language = ''] = /^( *)(`{3,})\s*([^`]*?)\s*$/.exec(line) ?? []
    if (fence === undefined) {
      const isComment = readOption(line, options)
      if (line.trim() !== '' && !isComment) [options, above] = [{}, undefined]
      continue
    }
    const end = lines.findIndex((other, nth) => nth > at && other.trim() === fence)
    if (end === -1) throw new Error(`${page}:${at + 1}: a block without an end`)
    const inner = lines.slice(at + 1, end).map(other => other.startsWith(indent) ? other.slice(indent.length) : other)
      .join('\n')
    if (language === '' && above !== undefined && actionOf(above) === 'run' && above.expectedOutput === undefined) {
      blocks[blocks.length - 1] = {
        ...above,
        expectedOutput: { text: inner, numbersDiffer: options.numbersDiffer === true }
      }
      above = undefined
    } else {
      above = {
        page,
        line: at + 1,
        language,
        text: inner,
        skipReason: options.notRun,
        file: options.file,
        exitCode: options.exitCode ?? 0,
        expectedOutput: undefined
      }
      blocks.push(above)
    }
    options = {}
    at = end
  }
  return blocks
}

/** Returns the action for a block; undefined if there is none. */
export function actionOf ({ language }: Pick<CodeBlock, 'language'>): 'run' | 'check' | undefined {
  return isWay(language) ? blockActions[language] : undefined
}

function isWay (language: string): language is BlockLanguage {
  return Object.hasOwn(blockActions, language)
}

/** Returns marking errors: each block must be run or checked, or say why not. */
export function blockFaults (blocks: readonly CodeBlock[]): string[] {
  return blocks.flatMap(block => {
    const place = `${block.page}:${block.line}`
    if (block.skipReason === '') return [`${place}: "not run" wants a reason`]
    const hang = actionOf(block) === 'run' ? hangIn(block.text) : undefined
    if (hang !== undefined) return [`${place}: ${hang}`]
    if (block.skipReason !== undefined || actionOf(block) !== undefined) return []
    const what = block.language === ''
      ? 'a block without a language stands right below the commands that print it'
      : `blocks of ${block.language} are not run`
    return [`${place}: ${what}; else <!-- not run: REASON --> stands above it`]
  })
}

// Finds commands that hang or break in a reader's shell with other jobs, or before a server is up.
function hangIn (text: string): string | undefined {
  if (/^\s*(?:until|while)\b/m.test(text)) {
    return 'a loop without end where a server has not started: use curl --retry N --retry-connrefused'
  }
  if (/\bwait *(?:$|[;&|])/m.test(text)) return 'waits for every job of the shell: name the jobs of the block'
  return undefined
}

function readOption (line: string, options: BlockOptions): boolean {
  const [, name, , value = ''] = /^ *<!-- ([a-z ]+?)(: *(.*?))? *-->$/.exec(line) ?? []
  switch (name) {
    case 'not run':
      options.notRun = value.trim()
      break
    case 'file':
      options.file = value
      break
    case 'exit code':
      options.exitCode = Number(value)
      break
    case 'numbers differ':
      options.numbersDiffer = true
  }
  return /^ *<!--.*-->$/.test(line)
}

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

// Matches versions, heights, times and ports, which have four digits or more; shorter numbers are literal, such as a
// status.
const long = /(?<![0-9A-Za-z.])[0-9]{4,}(?![0-9A-Za-z])/g
const any = /(?<![0-9A-Za-z])[0-9]+(?:\.[0-9]+)*/g

/** True if output matches the page line by line, except for variable numbers and `...` for omissions. */
export function matchesOutput (printed: string, { text, numbersDiffer }: ExpectedOutput): boolean {
  return patternOf(text, numbersDiffer).test(plain(printed))
}

function patternOf (text: string, numbersDiffer: boolean): RegExp {
  const lines = plain(text).split('\n').slice(0, -1).map(line =>
    line.trim() === '...' ? '(?:.*\\n)*?' : `${patternOfLine(line, numbersDiffer)}\\n`
  )
  return new RegExp(`^${lines.join('')}$`)
}

function patternOfLine (line: string, numbersDiffer: boolean): string {
  return line.split('...').map(part => between(part, numbersDiffer ? any : long)).join('.*')
}

// Matches text between numbers literally.
function between (text: string, numbers: RegExp): string {
  const number = numbers === any ? '[0-9]+(?:\\.[0-9]+)*' : '[0-9]+'
  return text.split(numbers).map(part => part.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')).join(number)
}

// Strips invisible blanks at the end of lines and the CR of HTTP.
function plain (text: string): string {
  return `${text.replace(/[ \t\r]+$/gm, '').replace(/\n+$/, '')}\n`.replace(/^\n$/, '')
}

/** Returns a page's configuration with its variables set and its files present. */
export function pageConfig (
  text: string,
  folder: string
): { readonly file: string, readonly env: Record<string, string> } {
  mkdirSync(folder, { recursive: true })
  const secret = join(folder, 'secret')
  writeFileSync(secret, 'k-from-a-file\n')
  writeFileSync(join(folder, 'cert.pem'), certificate)
  writeFileSync(join(folder, 'key.pem'), certificateKey)
  const env = Object.fromEntries(
    [...text.matchAll(/\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g)].map((
      [, name = '']
    ) => [name, name.endsWith('_URL') ? 'redis://127.0.0.1:1' : `k-${name}`])
  )
  // A block shows the keys that its page is about, so it rarely lists upstreams.
  if (!/^upstreams:/m.test(text)) env['VARVE_SANDBOX'] = '1'
  const file = join(folder, 'page.yaml')
  writeFileSync(
    file,
    text.replace(/\$\{file:[^}]*\}/g, `\${file:${secret}}`).replace(
      /((ca|cert|key)File: *)[^\s,}]+/g,
      (_match, key: string, kind: string) => `${key}${join(folder, kind === 'key' ? 'key.pem' : 'cert.pem')}`
    )
  )
  return { file, env }
}
