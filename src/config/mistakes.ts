import { z } from 'zod'
import { isSecret } from './secrets.js'
import { configSchema } from './schema.js'

/** One mistake: the key's path and what was expected there. */
export interface Mistake {
  readonly path: string
  readonly message: string
}

/** A configuration that varve does not wholly understand, and so does not start on. */
export class ConfigError extends Error {
  readonly mistakes: readonly Mistake[]

  constructor (mistakes: readonly Mistake[]) {
    super(mistakes.map(({ path, message }) => `${path}: ${message}`).join('\n'))
    this.mistakes = mistakes
  }
}

/** Every mistake, each with its path, where it was set if not in the file, and what was expected. */
export function mistakesIn (issues: readonly z.core.$ZodIssue[], tree: unknown, sources: ReadonlyMap<string, string>): Mistake[] {
  return issues.flatMap(issue => {
    const path = issue.path.map(String)
    if (issue.code === 'unrecognized_keys') {
      return issue.keys.map(key => ({ path: [...path, key].join('.'), message: `unknown key; expected one of ${keysAt(path).join(', ')}` }))
    }
    const source = sources.get(path.join('.')) ?? sources.get(path[0] ?? '')
    const place = path.join('.') + (source === undefined ? '' : ` (from ${source})`)
    return [{ path: place === '' ? 'configuration' : place, message: `${expectation(issue)}${found(path, tree)}` }]
  })
}

function expectation (issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case 'invalid_type': return `expected ${issue.expected === 'record' || issue.expected === 'object' ? 'a map of keys' : withArticle(issue.expected)}`
    case 'invalid_value': return `expected ${issue.values.length > 1 ? 'one of ' : ''}${issue.values.join(', ')}`
    case 'too_small': return issue.origin === 'string' ? 'expected a text that is not empty' : `expected at least ${issue.minimum}`
    case 'too_big': return `expected at most ${issue.maximum}`
    case 'invalid_key': return issue.issues.map(inner => inner.message).join(', ')
    default: return issue.message
  }
}

function withArticle (expected: string): string {
  const word = expected === 'int' ? 'whole number' : expected === 'array' ? 'list' : expected === 'string' ? 'text' : expected
  return `a ${word}`
}

// A secret that was mistyped must not end up in a terminal's history or a log.
function found (path: readonly string[], tree: unknown): string {
  const value = path.reduce<unknown>((at, key) => (at as Record<string, unknown> | undefined)?.[key], tree)
  if (isSecret(path) || (typeof value === 'object' && value !== null)) return ''
  return value === undefined ? ', got nothing' : `, got ${JSON.stringify(value)}`
}

interface Shape { properties?: Record<string, Shape>, items?: Shape }

function keysAt (path: readonly string[]): string[] {
  let shape: Shape | undefined = z.toJSONSchema(configSchema, { io: 'input', unrepresentable: 'any' }) as Shape
  for (const key of path) shape = shape?.properties?.[key] ?? shape?.items
  return Object.keys(shape?.properties ?? {})
}
