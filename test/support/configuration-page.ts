import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { restartPaths } from '../../src/config/restart-keys.js'
import { overrides } from '../../src/config/load.js'
import { configSchema } from '../../src/config/schema.js'

// A number and a unit by the end of a key; KiB, MiB, GiB and TiB are other names of the same sizes.
const unitPatterns = [
  [/(?:\bms|Ms|Seconds)$/, '^[0-9]+(?:\\.[0-9]+)?(?:ms|s|m|h|d)$'],
  [/(?:Kb|Mb|Gb)$/, '^[0-9]+(?:\\.[0-9]+)?(?:B|[KMGT]i?B)$']
] as const

/** Parts of a JSON schema that the page uses. */
interface Shape {
  readonly type?: string | readonly string[]
  readonly description?: string
  readonly default?: unknown
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly minimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly properties?: Readonly<Record<string, Shape>>
  readonly items?: Shape
  readonly anyOf?: readonly Shape[]
  readonly required?: readonly string[]
  readonly additionalProperties?: Shape | false
}

/** A key with its documented properties. */
interface Row {
  readonly key: string
  readonly shape: Shape
  readonly isRequired: boolean
}

const code = (text: string): string => `\`${text}\``
const schema = z.toJSONSchema(configSchema, { io: 'input', unrepresentable: 'any' }) as Shape
const head = '| key | default; values | meaning |\n|---|---|---|'
// Puts smaller groups into the table of single keys.
const leastInGroup = 4

/** Returns the generated section of docs/configuration.md, between its two marks. */
export function configurationPage (): string {
  const meanings = meaningsIn(readFileSync(join(import.meta.dirname, '../../config/varve.yaml'), 'utf8'))
  const tops = Object.entries(schema.properties ?? {}).map(([key, shape]) => ({ key, rows: rowsOf(key, shape, false) }))
  const plain = tops.filter(({ rows }) => rows.length < leastInGroup).flatMap(({ rows }) => rows)
  const groups = tops.filter(({ rows }) => rows.length >= leastInGroup)
  const tableOf = (rows: readonly Row[]): string => `${head}\n${rows.map(row => lineOf(row, meanings)).join('\n')}\n`
  const sections = groups.map(({ key, rows }) =>
    `### ${key}\n\n${
      meanings.has(key) && !rows.some(row => row.key === key) ? `${escaped(meanings.get(key) ?? '')}\n\n` : ''
    }${tableOf(rows)}`
  )
  return `\n### Small groups and single keys\n\n${tableOf(plain)}\n${sections.join('\n')}\n`
}

/** Returns every key that has a row on the page. */
export function keysOnPage (): string[] {
  return Object.entries(schema.properties ?? {}).flatMap(([key, shape]) => rowsOf(key, shape, false)).map(({ key }) =>
    key
  )
}

/** Returns the comments of config/varve.yaml by the path of their key; a path into a list's items has []. */
export function meaningsIn (yaml: string): Map<string, string> {
  const meanings = new Map<string, string>()
  const path: Array<{ readonly indent: number, readonly key: string }> = []
  let last: string | undefined
  for (const line of yaml.split('\n')) {
    // Skips the example upstream, which is commented out as a whole.
    const isExample = /^# (?:- | {2})/.test(line)
    const [, indent = '', key, comment] =
      /^( *(?:- )?)([A-Za-z]+):.*?(?:\s# (.*))?$/.exec(isExample ? line.slice(2) : line) ?? []
    const [, more] = /^#? +# (.*)$/.exec(line) ?? []
    if (key !== undefined) {
      while ((path.at(-1)?.indent ?? -1) >= indent.length) path.pop()
      if (!isExample) path.push({ indent: indent.length, key })
      last = isExample ? `upstreams[].${key}` : path.map(part => part.key).join('.')
      if (comment !== undefined) meanings.set(last, comment.trim())
    } else if (more !== undefined && last !== undefined) {
      meanings.set(last, `${meanings.get(last) ?? ''} ${more}`.trim())
    } else if (line.startsWith('#')) last = undefined
  }
  return meanings
}

function rowsOf (key: string, shape: Shape, isRequired: boolean): Row[] {
  const below = (prefix: string, { properties = {}, required = [] }: Shape): Row[] =>
    Object.entries(properties).flatMap(([name, inner]) => rowsOf(`${prefix}.${name}`, inner, required.includes(name)))
  if (shape.properties !== undefined) return below(key, shape)
  const own = { key, shape, isRequired }
  return shape.items?.properties === undefined ? [own] : [own, ...below(`${key}[]`, shape.items)]
}

function lineOf ({ key, shape, isRequired }: Row, meanings: ReadonlyMap<string, string>): string {
  const set = overrides.find(({ path }) => path.join('.') === key)
  const by = set === undefined ? '' : ` (${code(`--${set.flag}`)}, ${code(set.variable)})`
  const fallback = isRequired
    ? 'must be given'
    : shape.default === undefined
    ? 'by its place'
    : code(JSON.stringify(shape.default))
  const type = typeOf(shape)
  return `| ${code(key)} | ${fallback}${type === '' ? '' : `; ${escaped(type)}`} | ${
    escaped(meanings.get(key) ?? `see ${code(key.slice(0, key.indexOf('[]')))}`)
  }${by}${needsRestart(key) ? '; *restart*' : ''} |`
}

/** Returns what a value may be, beside the default: nothing for a switch, and no `null`. */
function typeOf (shape: Shape): string {
  const either = shape.anyOf ?? (typeof shape.type === 'object' ? shape.type.map(type => ({ type })) : undefined)
  if (either !== undefined) return either.map(typeOf).filter(type => type !== '').join(', or ')
  if (shape.const !== undefined) return code(String(shape.const))
  if (shape.enum !== undefined) return shape.enum.map(value => code(String(value))).join(', ')
  if (shape.description !== undefined) return shape.description
  switch (shape.type) {
    case 'boolean':
    case 'null':
      return ''
    case 'integer':
      return rangeOf(shape)
    case 'number':
      return `a number, ${rangeOf(shape)}`
    case 'array':
      return shape.items?.properties === undefined ? `a list: ${typeOf(shape.items ?? {})}` : 'a list of maps'
    case 'object':
      return 'a map'
    default:
      return 'a text'
  }
}

function rangeOf ({ minimum = 0, maximum = Infinity }: Shape): string {
  return maximum >= Number.MAX_SAFE_INTEGER ? `${minimum} or more` : `${minimum} to ${maximum.toLocaleString('en')}`
}

function escaped (text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('<', '&lt;')
}

/** Returns true for a key that a reload does not apply. */
function needsRestart (key: string): boolean {
  return restartPaths.some(path => key === path || key.startsWith(`${path}.`))
}

type SchemaPart = Record<string, unknown> & {
  properties?: Record<string, SchemaPart>,
  items?: SchemaPart,
  anyOf?: SchemaPart[],
  additionalProperties?: SchemaPart | false
}

const reference = { $ref: '#/$defs/reference' }

/** Returns config/varve.schema.json: the schema of a file, described by the comments of config/varve.yaml. */
export function configJsonSchema (meanings: ReadonlyMap<string, string>): object {
  const { $schema, ...shape } = z.toJSONSchema(configSchema, { io: 'input', unrepresentable: 'any' }) as SchemaPart
  return {
    $schema,
    title: 'Configuration of varve',
    ...described(shape, '', meanings),
    $defs: {
      reference: {
        type: 'string',
        pattern: '\\$\\{',
        // eslint-disable-next-line no-template-curly-in-string
        description: 'a value from the environment, ${NAME}, or from a file, ${file:PATH}'
      }
    }
  }
}

function described (shape: SchemaPart, key: string, meanings: ReadonlyMap<string, string>): SchemaPart {
  const { description: _ofType, ...rest } = shape
  const meaning = meanings.get(key) ?? meanings.get(key.replace(/\[\]\.[A-Za-z]+$/, ''))
  const { properties, items, default: value, ...own } = rest as SchemaPart
  const inner: SchemaPart = {
    ...own,
    ...properties !== undefined && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, each]) => [
          name,
          described(each, key === '' ? name : `${key}.${name}`, meanings)
        ])
      )
    },
    ...items !== undefined && { items: described(items, `${key}[]`, meanings) }
  }
  return {
    ...meaning !== undefined && { description: meaning },
    ...value !== undefined && { default: value },
    ...withTexts(inner, key)
  }
}

// A file may give a reference, or a text with a unit, where validation then expects a number.
function withTexts (shape: SchemaPart, key: string): SchemaPart {
  const isCollection = shape.type === 'object' || shape.type === 'array'
  const isAnyText = (one: SchemaPart): boolean =>
    one.type === 'string' && one.pattern === undefined && one.enum === undefined
  if (isCollection || isAnyText(shape) || shape.$ref !== undefined) return shape
  const pattern = unitPatterns.find(([suffix]) => suffix.test(key))?.[1]
  const { anyOf = [shape], ...rest } = shape
  const texts = [...pattern === undefined ? [] : [{ type: 'string', pattern }], reference]
  if (anyOf.some(isAnyText)) return shape
  return { ...shape.anyOf !== undefined && rest, anyOf: [...anyOf, ...texts] }
}
