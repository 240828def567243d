import { readFileSync } from 'node:fs'
import {
  type Document,
  type ErrorCode,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
  YAMLError
} from 'yaml'
import { ConfigError, type Mistake, type Place } from './config-error.js'
import { keyNames } from './mistakes.js'
import { tildeMistake } from './value-checks.js'

/** Keys of a file before validation. */
export type ConfigTree = Record<string, unknown>

/** Content of a configuration file. */
export interface ConfigFile {
  readonly tree: ConfigTree
  /**
   * Returns the place of a key or of its value. For a map or a list, this is always the place of its key; for a missing
   * key, the place of the nearest key above.
   */
  placeOf(path: readonly string[], of?: 'key' | 'value'): Place | undefined
}

const bareReference =
  // eslint-disable-next-line no-template-curly-in-string
  'a value with ${NAME} or ${file:PATH} in it needs quotes within { } and [ ], such as { authorization: ' +
  // eslint-disable-next-line no-template-curly-in-string
  '"Bearer ${NAME}" }'

/**
 * Reads a YAML file; throws a ConfigError with every syntax mistake, which quotes no text of the file but names of
 * keys.
 */
export function readYaml (file: string): ConfigFile {
  let tree: unknown
  let document: Document
  const lines = new LineCounter()
  try {
    const text = readFileSync(file, 'utf8')
    document = parseDocument(text, { stringKeys: true, resolveKnownTags: false, lineCounter: lines })
    const mistakes = syntaxMistakes(file, text, document)
    if (mistakes.length > 0) throw new ConfigError(mistakes, file)
    tree = document.toJS()
    // An alias can make a value contain itself; printing the tree throws on such a cycle.
    JSON.stringify(tree)
  } catch (error) {
    throw error instanceof ConfigError
      ? error
      : new ConfigError([{ path: file, message: tildeMistake(file) ?? withoutSource(error as Error) }])
  }
  if (typeof tree !== 'object' || Array.isArray(tree)) {
    throw new ConfigError([{ path: file, message: 'expected a map of keys' }])
  }
  return {
    tree: (tree ?? {}) as ConfigTree,
    placeOf: (path, of = 'value') => {
      const offset = offsetOf(document, path, of)
      if (offset === undefined) return undefined
      const { line, col: column } = lines.linePos(offset)
      return { line, column }
    }
  }
}

// Returns the place of an alias, not of its anchor, which may be in a part that is right.
function offsetOf (document: Document, path: readonly string[], of: 'key' | 'value'): number | undefined {
  let node: unknown = document.contents
  let offset: number | undefined
  for (const [at, name] of path.entries()) {
    const collection = isAlias(node) ? node.resolve(document) : node
    if (isMap(collection)) {
      const pair = collection.items.find(({ key }) => isScalar(key) && key.value === name)
      if (pair === undefined) break
      const isAtValue = isScalar(pair.value) && pair.value.source !== '' && (of === 'value' || at < path.length - 1)
      offset = startOf(isAtValue ? pair.value : pair.key) ?? offset
      node = pair.value
    } else if (isSeq(collection)) {
      node = collection.items[Number(name)]
      offset = startOf(node) ?? offset
    } else break
  }
  return offset
}

function startOf (node: unknown): number | undefined {
  return (node as { range?: readonly [number, number, number] | null } | undefined)?.range?.[0]
}

// An unquoted reference causes further parser errors after its brace, so these are left out.
function syntaxMistakes (file: string, text: string, { errors, warnings }: Document): Mistake[] {
  const bare = errors.findIndex(({ pos: [offset] }) => offset > 0 && text.startsWith('${', offset - 1))
  const reported = bare === -1 ? [...errors, ...warnings] : errors.slice(0, bare + 1)
  return reported.map((error, at) => {
    const [start] = error.linePos ?? []
    return {
      path: start === undefined ? file : '',
      message: at === bare ? bareReference : withoutSource(error),
      ...(start !== undefined && {
        place: { line: start.line, column: start.col },
        ...(at !== bare && { line: shownLine(text.split('\n')[start.line - 1] ?? '', start.col) })
      })
    }
  })
}

// Masks each word that is no key of the configuration, because it may be a secret.
function shownLine (text: string, column: number): string {
  const names = keyNames()
  const masked = (part: string): string => part.replaceAll(/[^\s:[\]{},"'#-]+/g, word => names.has(word) ? word : '...')
  return `    ${masked(text)}\n    ${' '.repeat(masked(text.slice(0, column - 1)).length)}^`
}

// Removes text of the file from the parser's message, because it may be a secret: mostly after a colon, sometimes
// earlier.
function withoutSource (error: Error): string {
  if (error instanceof YAMLError) return messageByErrorCode[error.code] ?? firstClauseOf(error)
  if (error instanceof ReferenceError) return firstClauseOf(error)
  return 'code' in error
    ? messageByErrno[String(error.code)] ?? error.message
    : 'expected values that do not contain themselves'
}

const messageByErrno: Readonly<Record<string, string>> = {
  ENOENT: 'no such file (ENOENT): check the path given with --config, VARVE_CONFIG or varve check',
  EACCES: 'not readable by the user that runs varve (EACCES)',
  EISDIR: 'is a folder (EISDIR): expected a file'
}

const messageByErrorCode: Partial<Record<ErrorCode, string>> = {
  BAD_DIRECTIVE: 'unknown directive; a value that begins with % needs quotes',
  BAD_DQ_ESCAPE: 'unknown escape between double quotes; write a backslash twice there',
  BAD_SCALAR_START: 'a value that begins with this character needs quotes',
  KEY_OVER_1024_CHARS: 'a key is longer than 1,024 characters',
  TAG_RESOLVE_FAILED: 'unknown tag; a value that begins with ! needs quotes'
}

function firstClauseOf ({ message }: Error): string {
  return message.split(/:| at line /, 1).join('')
}
