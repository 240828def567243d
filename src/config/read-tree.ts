import { readFileSync } from 'node:fs'
import { parseDocument, YAMLError } from 'yaml'
import { ConfigError } from './mistakes.js'

/** A file's keys as they stand, not yet checked. */
export type Tree = Record<string, unknown>

/** Reads a YAML file; throws a ConfigError with every mistake of its syntax, none of which quotes the file. */
export function readTree (file: string): Tree {
  let tree: unknown
  try {
    const document = parseDocument(readFileSync(file, 'utf8'))
    const mistakes = [...document.errors, ...document.warnings].map(error => ({ path: placeIn(file, error.linePos), message: withoutSource(error) }))
    if (mistakes.length > 0) throw new ConfigError(mistakes)
    tree = document.toJS()
  } catch (error) {
    throw error instanceof ConfigError ? error : new ConfigError([{ path: file, message: withoutSource(error as Error) }])
  }
  if (tree === null) return {}
  if (typeof tree !== 'object' || Array.isArray(tree)) throw new ConfigError([{ path: file, message: 'expected a map of keys' }])
  return tree as Tree
}

function placeIn (file: string, at: YAMLError['linePos']): string {
  return at === undefined ? file : `${file}, line ${at[0].line}, column ${at[0].col}`
}

// The parser quotes the file after a colon, which may be the line of a secret.
function withoutSource (error: Error): string {
  return error instanceof YAMLError || error instanceof ReferenceError ? error.message.split(/:| at line /, 1).join('') : error.message
}
