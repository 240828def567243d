/** A fenced block of a page. */
export interface CodeBlock {
  readonly page: string
  /** Where it begins. */
  readonly line: number
  readonly language: string
  readonly text: string
  /** Why it is not run, in the words of the page's author. */
  readonly skipReason: string | undefined
  /** The name under which it is to be there for what follows. */
  readonly file: string | undefined
  /** The code with which its last command ends. */
  readonly exitCode: number
  /** What its commands print, by the page. */
  readonly expectedOutput: ExpectedOutput | undefined
}

/** What a page shows of what commands print. */
export interface ExpectedOutput {
  readonly text: string
  /** Whether any number in it may be another one: else only long ones may, which come of the hour. */
  readonly numbersDiffer: boolean
}

/** What the author tells of a block in comments that no reader sees. */
interface Marks {
  notRun?: string
  file?: string
  exitCode?: number
  numbersDiffer?: true
}

/** What can be done with blocks of a language, others being for the eye alone. */
export const blockActions = { sh: 'run', console: 'run', yaml: 'check', promql: 'check', json: 'check' } as const

/** A language of blocks that something can be done with. */
export type BlockLanguage = keyof typeof blockActions

/** The blocks of a page in its order; what stands unnamed right below commands is what they print. */
export function blocksIn (page: string, text: string): CodeBlock[] {
  const blocks: CodeBlock[] = []
  const lines = text.split('\n')
  let marks: Marks = {}
  // Only what stands right below a block belongs to it.
  let above: CodeBlock | undefined
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at] ?? ''
    const [, indent = '', fence, language = ''] = /^( *)(`{3,})\s*([^`]*?)\s*$/.exec(line) ?? []
    if (fence === undefined) {
      const isComment = readMark(line, marks)
      if (line.trim() !== '' && !isComment) [marks, above] = [{}, undefined]
      continue
    }
    const end = lines.findIndex((other, nth) => nth > at && other.trim() === fence)
    if (end === -1) throw new Error(`${page}:${at + 1}: a block without an end`)
    const inner = lines.slice(at + 1, end).map(other => other.startsWith(indent) ? other.slice(indent.length) : other)
      .join('\n')
    if (language === '' && above !== undefined && actionOf(above) === 'run' && above.expectedOutput === undefined) {
      blocks[blocks.length - 1] = {
        ...above,
        expectedOutput: { text: inner, numbersDiffer: marks.numbersDiffer === true }
      }
      above = undefined
    } else {
      above = {
        page,
        line: at + 1,
        language,
        text: inner,
        skipReason: marks.notRun,
        file: marks.file,
        exitCode: marks.exitCode ?? 0,
        expectedOutput: undefined
      }
      blocks.push(above)
    }
    marks = {}
    at = end
  }
  return blocks
}

/** What is to be done with a block: undefined where nothing can be. */
export function actionOf ({ language }: Pick<CodeBlock, 'language'>): 'run' | 'check' | undefined {
  return isWay(language) ? blockActions[language] : undefined
}

function isWay (language: string): language is BlockLanguage {
  return Object.hasOwn(blockActions, language)
}

/** What is wrong with how blocks are marked: each is run or checked, or says why not. */
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

// A reader pastes a block into a shell that may have other jobs, and whose servers may not have started.
function hangIn (text: string): string | undefined {
  if (/^\s*(?:until|while)\b/m.test(text)) {
    return 'a loop without end where a server has not started: use curl --retry N --retry-connrefused'
  }
  if (/\bwait *(?:$|[;&|])/m.test(text)) return 'waits for every job of the shell: name the jobs of the block'
  return undefined
}

function readMark (line: string, marks: Marks): boolean {
  const [, name, , value = ''] = /^ *<!-- ([a-z ]+?)(: *(.*?))? *-->$/.exec(line) ?? []
  switch (name) {
    case 'not run':
      marks.notRun = value.trim()
      break
    case 'file':
      marks.file = value
      break
    case 'exit code':
      marks.exitCode = Number(value)
      break
    case 'numbers differ':
      marks.numbersDiffer = true
  }
  return /^ *<!--.*-->$/.test(line)
}
