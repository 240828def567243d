import { z } from 'zod'
import { isSecret, shownPath } from './secrets.js'
import { configSchema } from './schema.js'

/** Path of a key, and what was expected there. */
export interface Mistake {
  readonly path: string
  readonly message: string
}

/** Error for a configuration that varve does not fully understand. */
export class ConfigError extends Error {
  readonly mistakes: readonly Mistake[]
  /** Configuration file; undefined without one, or if the mistakes name it. */
  readonly file: string | undefined

  constructor (mistakes: readonly Mistake[], file?: string) {
    super(mistakes.map(({ path, message }) => `${path}: ${message}`).join('\n'))
    this.mistakes = mistakes
    this.file = file
  }
}

/** Lists all mistakes, each with its path, its source if not the file, and what was expected. */
export function mistakesIn (
  issues: readonly z.core.$ZodIssue[],
  tree: unknown,
  sources: ReadonlyMap<string, string>
): Mistake[] {
  return issues.flatMap(issue => {
    const path = issue.path.map(String)
    if (issue.code === 'unrecognized_keys') {
      return issue.keys.map(key => ({
        path: shownPath([...path, isEmptyValue(valueAt(tree, [...path, key])) ? '' : key]),
        message: `unknown key; expected one of ${keysAt(path).join(', ')}`
      }))
    }
    const source = sources.get(path.join('.')) ?? sources.get(path[0] ?? '')
    const place = shownPath(path) + (source === undefined ? '' : ` (from ${source})`)
    return [{
      path: place === '' ? 'configuration' : place,
      message: `${expectation(issue)}${gotText(issue, path, tree)}`
    }]
  })
}

function expectation (issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return `expected ${
        issue.expected === 'record' || issue.expected === 'object' ? 'a map of keys' : withArticle(issue.expected)
      }`
    case 'invalid_value':
      return `expected ${issue.values.length > 1 ? 'one of ' : ''}${issue.values.join(', ')}`
    case 'too_small':
      return issue.origin === 'string' ? 'expected a text that is not empty' : `expected at least ${issue.minimum}`
    case 'too_big':
      return `expected at most ${issue.maximum}`
    case 'invalid_key':
      return issue.issues.map(inner => inner.message).join(', ')
    default:
      return issue.message
  }
}

function withArticle (expected: string): string {
  const word = expected === 'int'
    ? 'whole number'
    : expected === 'array'
    ? 'list'
    : expected === 'string'
    ? 'text'
    : expected
  return `a ${word}`
}

// Quotes no text but file paths: a mistyped or misplaced secret must not appear in a log or a terminal's history.
function gotText (issue: z.core.$ZodIssue, path: readonly string[], tree: unknown): string {
  const value = valueAt(tree, path)
  if (isSecret(path) || (typeof value === 'object' && value !== null)) return ''
  if (value === undefined) return ', got nothing'
  if (typeof value === 'string') {
    return issue.code === 'invalid_type'
      ? ', got a text'
      : isFileKey(path) && isPathLike(value)
      ? `, got ${JSON.stringify(value)}`
      : ''
  }
  return String(value).length <= maxShownChars ? `, got ${String(value)}` : ''
}

// Longer numbers may be secrets made of digits.
const maxShownChars = 7

function isFileKey (path: readonly string[]): boolean {
  return /\.[a-z]+File$/.test(path.join('.'))
}

// Distinguishes paths from key material, which is easily given instead of its file.
function isPathLike (text: string): boolean {
  return /^(?:\.{0,2}\/|[A-Za-z]:\\).{0,200}$|^.{1,200}\.(?:pem|crt|cer|key)$/.test(text)
}

function valueAt (tree: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (at, key) =>
      typeof at === 'object' && at !== null && Object.hasOwn(at, key)
        ? (at as Record<string, unknown>)[key]
        : undefined,
    tree
  )
}

// In braces YAML parses a lone text as a key without a value, so such a key may be a secret.
function isEmptyValue (value: unknown): boolean {
  return value === null || value === undefined
}

interface Shape {
  properties?: Record<string, Shape>
  items?: Shape
}

function keysAt (path: readonly string[]): string[] {
  let shape: Shape | undefined = z.toJSONSchema(configSchema, { io: 'input', unrepresentable: 'any' }) as Shape
  for (const key of path) shape = shape?.properties?.[key] ?? shape?.items
  return Object.keys(shape?.properties ?? {})
}
