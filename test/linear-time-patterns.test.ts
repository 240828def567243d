import { randomInt } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import ts from 'typescript'
import { parse } from 'yaml'
import { readBearerToken } from '../src/clients/api-keys.js'
import { matchingTag } from '../src/proxy/response-builder.js'
import { readAccept, readAcceptEncoding } from '../src/api/accept.js'
import { readAddress, readTagAddress, shortAddressOf } from '../src/api/address.js'
import { endpoints } from '../src/api/endpoints.js'
import { integerNormaliser, readU16, readU64 } from '../src/api/integer.js'
import { readObject } from '../src/api/strict-json-object.js'
import { matchEndpoint, readRequest, readMinVersion } from '../src/api/read-request.js'
import { bodyFromText } from '../src/api/request-body.js'
import { canonicalHex } from '../src/api/table-key.js'
import { isIdentifier, readTypeTag } from '../src/api/type-tag.js'
import {
  originFormOf,
  forwardedTarget,
  requireLegalCharacters,
  versionInTarget
} from '../src/api/pass-through-target.js'
import { Cors } from '../src/http/cors.js'
import { parseAddress } from '../src/http/client-address.js'
import { traceIdOf } from '../src/http/request-tracing.js'
import { parseWarmRequest } from '../src/cli/warm-input.js'

const length = 64 * 1024
// Shorter texts suffice for a pattern: linear work takes 1 or 2 ms, quadratic work over 100 ms.
const patternLength = 16 * 1024
// Linear work stays below it on most machines, so that few texts are measured twice.
const quickMs = 60
// Linear work takes four times as long on a text four times as long, quadratic work sixteen times.
const mostTimes = 9
const tries = 3

/** A text that can be printed at several lengths. */
type Text = (length: number) => string

/** Returns the least processor time in ms of several runs, which leaves out other processes. */
function takes (run: () => unknown): number {
  let best = Infinity
  for (let nth = 0; nth < tries && best > quickMs; nth++) {
    const began = process.cpuUsage()
    try {
      run()
    } catch {
      // A rejection ends the work like any other result.
    }
    const { user, system } = process.cpuUsage(began)
    best = Math.min(best, (user + system) / 1000)
  }
  return best
}

/** Returns whether the work on a text grows faster than the text, also on a slow machine. */
function isSlow (work: (text: string) => unknown, text: Text, most: number): boolean {
  const [long, short] = [text(most), text(most / 4)]
  const ms = takes(() => work(long))
  return ms > quickMs && ms > mostTimes * takes(() => work(short))
}

const pick = <T>(list: readonly T[]): T => list[randomInt(list.length)] as T

/** Returns random texts with a valid start, a few repeated pieces, and an invalid end. */
function hostile (starts: readonly string[], pieces: readonly string[], count: number): Text[] {
  return Array.from({ length: count }, () => {
    const runs = Array.from(
      { length: 1 + randomInt(3) },
      () => Array.from({ length: 1 + randomInt(2) }, () => pick(pieces)).join('')
    )
    const [start, end] = [pick(starts), pick(['', '\u0001', '\u00a0', '!', 'x', ' '])]
    return length => start + runs.map(run => run.repeat(Math.ceil(length / runs.length / run.length))).join('') + end
  })
}

const { blanks, signs, starts } = parse(readFileSync('test/cases/hostile-pieces.yaml', 'utf8')) as Readonly<
  Record<'blanks' | 'signs' | 'starts', readonly string[]>
>

// Texts that once took quadratic time.
const known: Text[] = [
  length => `Bearer${' '.repeat(length / 2)}${'\u00a0'.repeat(length / 2)}`,
  length => '/v1'.repeat(length / 3),
  length => `GET /x${' '.repeat(length)}a\u2028`,
  length => 'handled request {\u2028'.repeat(length / 20)
]

const cors = new Cors('*')
const get = { method: 'GET', accept: undefined, contentType: undefined, body: Buffer.alloc(0) }
const read = (target: string, request: object = {}, method = 'GET'): unknown => {
  const match = matchEndpoint(target, method)
  return match && readRequest(match, { ...get, method, ...request })
}
const item = (name: string, text: string): Buffer =>
  Buffer.from(JSON.stringify({ key_type: 'vector<u64>', value_type: 'u64', key: ['1'], [name]: text }))
const bodyOf = (target: string, body: Buffer, contentType = 'application/json'): unknown =>
  read(target, { body, contentType }, 'POST')
const spellU64 = integerNormaliser('u64')
const readers = new Set(
  endpoints.flatMap(({ path, query }) => [
    ...path.flatMap(part => typeof part === 'string' ? [] : [part.read]),
    ...Object.values(query)
  ])
)

// Every function that parses what a client sends.
const parsers: Record<string, (text: string) => unknown> = {
  bearerIn: readBearerToken,
  readAccept,
  readMinVersion,
  codingsFor: readAcceptEncoding,
  cachedTag: text => matchingTag(text, () => ['"a"', '"b"']),
  traceIdOf: text => traceIdOf({ traceparent: text }),
  addressIn: parseAddress,
  isPreflight: text => cors.isPreflight({ origin: text, 'access-control-request-method': text }),
  preflight: text =>
    cors.preflight({
      origin: 'http://a',
      'access-control-request-method': 'GET',
      'access-control-request-headers': text
    }),
  isEchoed: text => cors.isAllowedOrigin(text),
  readAddress,
  readTagAddress,
  spellAddress: shortAddressOf,
  readU64,
  readU16,
  integerText: text => spellU64?.(text),
  isIdentifier,
  readTypeTag,
  canonicalHex,
  readObject: text => readObject(Buffer.from(text)),
  parameters: text => [...readers].map(reader => reader(text)),
  originFormOf,
  requireLegal: requireLegalCharacters,
  passedTarget: text => forwardedTarget(text, 'GET', 'reads'),
  versionIn: versionInTarget,
  matchEndpoint: text => read(text),
  'readRequest, path': text => read(`/v1/accounts/${text}/events/${text}/${text}`),
  'readRequest, query': text => read(`/v1/accounts/0x1/modules?${text}`),
  'readRequest, type': text => bodyOf('/v1/view', Buffer.alloc(0), text),
  'readRequest, body': text => bodyOf('/v1/tables/0x1/item', Buffer.from(text)),
  'readRequest, key': text => bodyOf('/v1/tables/0x1/item', item('key', text)),
  'readRequest, key type': text => bodyOf('/v1/tables/0x1/item', item('key_type', text)),
  'readRequest, view': text =>
    bodyOf('/v1/view', Buffer.from(JSON.stringify({ function: text, type_arguments: [text], arguments: [text] }))),
  'readRequest, BCS': text => bodyOf('/v1/view', Buffer.from(text), 'application/x.a.view_function+bcs'),
  bodyInWords: bodyFromText,
  readInLine: parseWarmRequest
}

t.test(
  'every parser of what a client sends takes linear time on any text',
  { timeout: 120_000 },
  async t => {
    const texts = [...hostile(starts, [...blanks, ...signs], 40), ...known]
    for (const [name, parse] of Object.entries(parsers)) {
      const slow = texts.find(text => isSlow(parse, text, length))
      t.equal(slow?.(60), undefined, name)
    }
  }
)

const src = join(import.meta.dirname, '../src')
// Folders whose patterns see only the operator's own words, flags, or clients of the sandbox.
const trusted = /^(?:sandbox|config|cli)\//
// Patterns that strip slashes from upstream URLs in the configuration, and group the digits of a count.
const trustedPatterns = new Set(['\\/+$', '^\\/|\\/+$', '\\B(?=(?:\\d{3})+$)'])

interface Pattern {
  readonly file: string
  readonly pattern: RegExp
}

function patternsIn (file: string): Pattern[] {
  const found: Pattern[] = []
  const visit = (node: ts.Node): void => {
    if (ts.isRegularExpressionLiteral(node)) {
      const end = node.text.lastIndexOf('/')
      found.push({ file, pattern: new RegExp(node.text.slice(1, end), node.text.slice(end + 1)) })
    }
    ts.forEachChild(node, visit)
  }
  visit(ts.createSourceFile(file, readFileSync(join(src, file), 'utf8'), ts.ScriptTarget.Latest))
  return found
}

/** Returns the signs and words of a pattern, and a text that it begins with. */
function partsOf ({ source }: RegExp): { readonly starts: string[], readonly pieces: string[] } {
  const plain = source.replace(/\\[sdwSDWbBpP](?:\{\w+\})?|\(\?(?:[:=!]|<[=!])|\[\^?|[\^$*+?(){}[\]|]/g, '\n').replace(
    /\\u([0-9a-f]{4})|\\x([0-9a-f]{2})/gi,
    (_, u: string | undefined, x: string | undefined) => String.fromCharCode(Number.parseInt(u ?? x ?? '0', 16))
  ).replaceAll('\\', '')
  const words = plain.split('\n').filter(word => word !== '')
  return {
    starts: ['', ...words, words.slice(0, 2).join('')],
    pieces: [...words, ...words.flatMap(word => [...word]), ...blanks, '0', 'a', 'x', '/', '.']
  }
}

t.test('each pattern that may meet bytes of a client or an upstream takes linear time', {
  timeout: 120_000
}, async t => {
  const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter(file =>
    file.endsWith('.ts') && !trusted.test(file)
  )
  const patterns = files.flatMap(patternsIn).filter(({ pattern }) => !trustedPatterns.has(pattern.source))
  t.ok(patterns.length > 50, `${patterns.length} patterns`)
  for (const { file, pattern } of patterns) {
    const { starts: first, pieces } = partsOf(pattern)
    const slow = hostile(first, pieces, 20).find(text => isSlow(text => text.replace(pattern, ''), text, patternLength))
    t.equal(slow?.(60), undefined, `${file}: ${String(pattern)}`)
  }
})
