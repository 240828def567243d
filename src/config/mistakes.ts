import { z } from 'zod'
import { type Mistake, type Place } from './config-error.js'
import { isNameLike, isSecret, shownPath } from './secrets.js'
import { unitExamplesOf } from './units.js'
import { closeNameTo } from './nearest-name.js'
import { configSchema } from './schema.js'

/** Where the values of a tree come from. */
export interface MistakeContext {
  readonly placeOf?: (path: readonly string[], of?: 'key' | 'value') => Place | undefined
  /** True for a value that replaces a reference, because that may be a secret whatever its key. */
  readonly isReplaced?: (path: readonly string[]) => boolean
}

// Keys of earlier releases, and what to do instead.
const removedKeys: ReadonlyMap<string, string> = new Map([
  [
    'mode',
    'removed: delete the line; audit.share compares hits with an upstream, and follow.mode: observe compares latest ' +
    'reads'
  ],
  ['hedge.burst', 'removed: ten hedges may be sent in a row; delete the line, and set hedge.share: 0 for no hedges'],
  ['log.accessErrorStatus', 'removed: each status from 400 on has an access line; delete the line'],
  ['waitForVersion.blocks', 'removed: reads up to two blocks above the head wait; delete the line'],
  ['pages.eventsDefault', 'removed: a page without a limit has 25 events, as with full nodes; delete the line']
])

/** Lists all mistakes, each with its path, its source if not the file, and what was expected. */
export function mistakesFromIssues (
  issues: readonly z.core.$ZodIssue[],
  tree: unknown,
  sources: ReadonlyMap<string, string>,
  { placeOf = () => undefined, isReplaced = () => true }: MistakeContext = {}
): Mistake[] {
  return issues.flatMap((issue): Mistake[] => {
    const path = issue.path.map(String)
    if (issue.code === 'unrecognized_keys') {
      return issue.keys.map(key => {
        const removed = removedKeys.get([...path, key].join('.'))
        const nearest = removed === undefined ? nearestKeyOf(key, path) : undefined
        return {
          path: shownPath([...path, isEmptyValue(valueAt(tree, [...path, key])) ? '' : key]),
          message: removed ??
            (nearest === undefined ? `unknown key; expected one of ${keysAt(path).join(', ')}` : 'unknown key'),
          nearest,
          place: placeOf([...path, key], 'key')
        }
      })
    }
    const source = sources.get(path.join('.')) ?? sources.get(path[0] ?? '')
    const place = shownPath(path) + (source === undefined ? '' : ` (from ${source})`)
    if (issue.code === 'invalid_type' && valueAt(tree, path) === undefined) {
      const message = `is required: ${shapeAt(path)?.description ?? expectation(issue)}`
      return [{ path: place, message, place: placeOf(path) }]
    }
    return [{
      path: place === '' ? 'configuration' : place,
      message: `${expectation(issue)}${unitExampleOf(issue, path)}${gotText(issue, path, tree, isReplaced)}`,
      example: exampleOf(path, issue),
      place: source === undefined ? placeOf(path) : undefined
    }]
  })
}

function expectation (issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return `expected a ${typeNames[issue.expected] ?? issue.expected}`
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

// Words for types that the library names as programmers do.
const typeNames: Readonly<Record<string, string>> = {
  int: 'whole number',
  array: 'list',
  string: 'text',
  record: 'map of keys',
  object: 'map of keys'
}

// Quotes no text but file paths and plain words: a mistyped or misplaced secret must not appear in a log.
function gotText (
  issue: z.core.$ZodIssue,
  path: readonly string[],
  tree: unknown,
  isReplaced: (path: readonly string[]) => boolean
): string {
  const value = valueAt(tree, path)
  if (isSecret(path) || (typeof value === 'object' && value !== null)) return ''
  if (typeof value === 'string') {
    // Shows no value that is compared with another key, since the comparison says enough, and no replaced text, which
    // may be a secret.
    const isShown = isShownText(value) && !isReplaced(path) && !/^expected (?:a unique|another) /.test(issue.message)
    return isShown || (isFileKey(path) && isPathLike(value))
      ? `, got ${JSON.stringify(value)}`
      : issue.code === 'invalid_type'
      ? ', got a text'
      : ''
  }
  return String(value).length <= maxShownChars ? `, got ${String(value)}` : ''
}

// Longer numbers may be secrets made of digits.
const maxShownChars = 7

// Shows words without digits, short quantities such as 5x, and IP addresses; a secret that a service issued is none of
// these.
function isShownText (text: string): boolean {
  return (text.length <= 20 && isNameLike(text)) ||
    (text.length <= maxShownChars && /^[-+]?[0-9]+(?:\.[0-9]+)? ?[A-Za-z]{0,3}$/.test(text)) ||
    /^[0-9]{1,3}(?:\.[0-9]{1,3}){1,3}(?::[0-9]{1,5})?$/.test(text)
}

function isFileKey (path: readonly string[]): boolean {
  return /\.[a-z]+File$/.test(path.join('.'))
}

// Distinguishes paths from key material, which is easily given instead of its file.
function isPathLike (text: string): boolean {
  return /^(?:~\/|\.{0,2}\/|[A-Za-z]:\\).{0,200}$|^.{1,200}\.(?:pem|crt|cer|key)$/.test(text)
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

function keysAt (path: readonly string[]): string[] {
  const { properties = {}, propertyNames } = shapeAt(path) ?? {}
  return [...Object.keys(properties), ...propertyNames?.enum ?? []]
}

function unitExampleOf ({ code }: z.core.$ZodIssue, path: readonly string[]): string {
  const examples = unitExamplesOf(path.at(-1) ?? '')
  return code !== 'invalid_type' || examples === undefined ? '' : `, or a text with a unit, such as ${examples}`
}

// Gives no example for messages of our schema, which have their own.
function exampleOf (path: readonly string[], { code }: z.core.$ZodIssue): string | undefined {
  if (path.join('.') === 'chainId') return 'chainId: 1 for mainnet, 2 for testnet'
  const { default: value } = shapeAt(path) ?? {}
  const hasExample = code !== 'custom' && code !== 'invalid_format' && value !== undefined && typeof value !== 'object'
  return hasExample ? `${path.at(-1) ?? ''}: ${String(value)}` : undefined
}

/** Part of the JSON schema of the configuration. */
interface Shape {
  readonly properties?: Readonly<Record<string, Shape>>
  /** Names that the keys of a map may have. */
  readonly propertyNames?: { readonly enum?: readonly string[] }
  readonly items?: Shape
  readonly anyOf?: readonly Shape[]
  readonly default?: unknown
  readonly description?: string
}

/** Returns the part of the JSON schema at a key; undefined for an unknown one. */
function shapeAt (path: readonly string[]): Shape | undefined {
  let shape: Shape | undefined = wholeShape()
  for (const key of path) shape = mapIn(shape?.properties?.[key] ?? shape?.items)
  return shape
}

/** Returns the map of a value that may also be null. */
function mapIn (shape: Shape | undefined): Shape | undefined {
  return shape?.anyOf?.find(({ properties }) => properties !== undefined) ?? shape
}

/**
 * Suggests what an unknown key may mean: one of the same map that is spelled alike, or one elsewhere, by its full key.
 * A key that is no word may be a secret, so nothing is compared with it.
 */
function nearestKeyOf (key: string, path: readonly string[]): string | undefined {
  if (!isNameLike(key)) return undefined
  const nearby = closeNameTo(key, keysAt(path))
  if (nearby !== undefined) return nearby
  const paths = pathsIn(wholeShape())
  const name = closeNameTo(key, [...new Set(paths.map(one => one.at(-1) ?? ''))])
  const elsewhere = paths.filter(one => one.at(-1) === name).map(one => one.join('.'))
  return elsewhere.length === 0 ? undefined : elsewhere.join(' or ')
}

/** Returns the names of all configuration keys; messages may show them, because a name is never a secret. */
export function keyNames (): ReadonlySet<string> {
  return new Set(pathsIn(wholeShape()).flat().map(name => name.replace(/\[\]$/, '')))
}

function wholeShape (): Shape {
  return z.toJSONSchema(configSchema, { io: 'input', unrepresentable: 'any' }) as Shape
}

function pathsIn ({ properties = {}, items }: Shape, above: readonly string[] = []): string[][] {
  const below = Object.entries(properties).flatMap(([key, shape]) => [
    [...above, key],
    ...pathsIn(mapIn(shape) ?? shape, [...above, key])
  ])
  return items === undefined ? below : [...below, ...pathsIn(items, [...above.slice(0, -1), `${above.at(-1) ?? ''}[]`])]
}
