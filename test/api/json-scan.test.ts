import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import t from 'tap'
import { readBlockSummary, readEventPageSummary } from '../../src/api/body-facts.js'
import { countItems, itemRangesIn, membersIn, type ByteRange, stringIn, u64In } from '../../src/api/json-scan.js'
import { invalidTexts } from '../support/cases.js'
import { check, seedTitle } from '../support/properties.js'

/** JSON before it is printed; a scalar is its own text. */
type Tree = string | { readonly items: readonly Tree[] } | {
  readonly members: ReadonlyArray<readonly [name: string, value: Tree]>
}

const printText = (text: string, isEscaped: boolean): string =>
  isEscaped
    ? `"${
      [...Array(text.length).keys()].map(at => `\\u${text.charCodeAt(at).toString(16).padStart(4, '0')}`).join('')
    }"`
    : JSON.stringify(text)
const awkward = fc.constantFrom(
  '',
  '"',
  '\\',
  '\\"',
  '{',
  '}]',
  '[1,',
  ',:',
  '__proto__',
  'first_version',
  '\n\t',
  'é',
  '😀',
  '\u2028'
)
const name = fc.oneof(awkward, fc.string({ unit: 'binary', maxLength: 6 }))
const scalar = fc.oneof(
  fc.constantFrom('true', 'false', 'null', '0', '-0', '1e5', '1.5E+3', '-2e-7', '18446744073709551615'),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map(value => JSON.stringify(value)),
  fc.tuple(name, fc.boolean()).map(([text, isEscaped]) => printText(text, isEscaped))
)

function treeOf (names: fc.Arbitrary<string>, scalars: fc.Arbitrary<string>): fc.Arbitrary<Tree> {
  return fc.letrec<{ tree: Tree }>(tie => ({
    tree: fc.oneof(
      { maxDepth: 5 },
      scalars,
      fc.array(tie('tree'), { maxLength: 5 }).map(items => ({ items })),
      fc.uniqueArray(fc.tuple(names, tie('tree')), { maxLength: 5, selector: ([name]) => name }).map(members => ({
        members
      }))
    )
  })).tree
}

const tree = treeOf(name, scalar)
const blanks = fc.array(fc.constantFrom('', ' ', '\n', '\t\r', '  \n  '), { minLength: 1, maxLength: 8 })

/** Prints a tree with each blank of a list in turn, wherever JSON allows blanks. */
function print (tree: Tree, blanks: readonly string[] = ['']): string {
  let used = 0
  const around = (text: string): string => `${blanks[used++ % blanks.length]}${text}${blanks[used++ % blanks.length]}`
  const text = (tree: Tree): string => {
    if (typeof tree === 'string') return around(tree)
    if ('items' in tree) return around(`[${tree.items.length > 0 ? tree.items.map(text).join(',') : around('')}]`)
    const members = tree.members.map(([name, value], index) =>
      `${around(printText(name, index % 2 > 0))}:${text(value)}`
    )
    return around(`{${members.length > 0 ? members.join(',') : around('')}}`)
  }
  return text(tree)
}

const at = (bytes: Buffer, span: ByteRange): string => bytes.toString('utf8', span.from, span.to)
const textsIn = (text: string): string[] | undefined =>
  itemRangesIn(Buffer.from(text))?.map(item => at(Buffer.from(text), item))
const namesIn = (text: string): string[] | undefined => {
  const members = membersIn(Buffer.from(text))
  return members && [...members.keys()]
}

/** Compares each span, at every level, with the value that the tree has there. */
function agrees (bytes: Buffer, span: ByteRange | undefined, tree: Tree): boolean {
  if (span === undefined) return false
  const isSame = isDeepStrictEqual(JSON.parse(at(bytes, span)), JSON.parse(print(tree))) &&
    at(bytes, span).trim() === at(bytes, span)
  const items = itemRangesIn(bytes, span)
  const members = membersIn(bytes, span)
  if (typeof tree === 'string') {
    return isSame && items === undefined && members === undefined && countItems(bytes, span) === undefined
  }
  if ('items' in tree) {
    return isSame && members === undefined && items?.length === tree.items.length &&
      countItems(bytes, span)?.all === items.length &&
      tree.items.every((item, index) => agrees(bytes, items[index], item))
  }
  return isSame && items === undefined && members !== undefined &&
    isDeepStrictEqual([...members.keys()], tree.members.map(([name]) => name)) &&
    tree.members.every(([name, value]) => agrees(bytes, members.get(name), value))
}

/** Scans the text as the only item of an array. */
function wholeOf (bytes: Buffer): ByteRange | undefined {
  const [whole, ...more] = itemRangesIn(Buffer.concat([Buffer.from('['), bytes, Buffer.from(']')])) ?? []
  return whole === undefined || more.length > 0 ? undefined : { from: whole.from - 1, to: whole.to - 1 }
}

t.test(`every span covers the value that a parser finds there, in body order (${seedTitle})`, async () => {
  check(
    fc.property(tree, blanks, (tree, blanks) => {
      const bytes = Buffer.from(print(tree, blanks))
      return agrees(bytes, wholeOf(bytes), tree)
    }),
    500
  )
})

// Over these characters, which cannot form part of a literal or an escape, the scan must be as strict as a parser.
const tokens = [...'[]{},:"1 ']

function isJson (text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function isJudgedAsByParser (text: string): boolean {
  const bytes = Buffer.from(text)
  const isWhole = wholeOf(bytes) !== undefined
  const first = text.trimStart().charAt(0)
  return isWhole === isJson(text) &&
    (itemRangesIn(bytes) !== undefined) === (isWhole && first === '[') &&
    (countItems(bytes) !== undefined) === (isWhole && first === '[') &&
    // A repeated name is valid JSON but ambiguous, so the scan rejects it.
    (membersIn(bytes) === undefined || (isWhole && first === '{'))
}

t.test('every short text of JSON punctuation, digits and blanks is judged like JSON.parse', async t => {
  let texts = ['']
  for (let length = 0; length <= 4; length++) {
    t.same(texts.filter(text => !isJudgedAsByParser(text)), [], `${texts.length} texts of ${length}`)
    texts = texts.flatMap(text => tokens.map(token => text + token))
  }
})

t.test(`reading arbitrary bytes ends and never throws (${seedTitle})`, async () => {
  const block = '{"block_height":"1","first_version":"1","last_version":"2","transactions":[{"a":"\\""}]}'
  const page = '[{"sequence_number":"1","version":"1","guid":{"creation_number":"1","account_address":"0x1"}}]'
  const damaged = fc.tuple(fc.constantFrom(block, page), fc.nat(), fc.uint8Array({ maxLength: 3 }), fc.nat({ max: 3 }))
    .map(([text, at, put, drops]) => {
      const from = at % text.length
      return Buffer.concat([Buffer.from(text.slice(0, from)), put, Buffer.from(text.slice(from + drops))])
    })
  const anything = fc.oneof(damaged, fc.uint8Array({ maxLength: 100 }).map(bytes => Buffer.from(bytes)))
  check(
    fc.property(anything, bytes => {
      const spans = [wholeOf(bytes), ...itemRangesIn(bytes) ?? [], ...membersIn(bytes)?.values() ?? []]
      readBlockSummary(bytes, 'json')
      readBlockSummary(bytes, 'bcs')
      readEventPageSummary(bytes)
      return spans.every(span =>
        span === undefined || (span.from >= 0 && span.from < span.to && span.to <= bytes.length)
      )
    }),
    2000
  )
})

t.test('an object that repeats a name is not read, even if one name is escaped', async t => {
  t.equal(namesIn('{"a":1,"b":2,"a":1}'), undefined)
  t.equal(namesIn('{"a":1,"\\u0061":1}'), undefined)
  t.equal(namesIn('{"é":1,"\\u00e9":1}'), undefined)
  t.equal(namesIn('{"/":1,"\\/":1}'), undefined)
  t.strictSame(namesIn('{"a":{"a":1,"a":2},"A":1}'), ['a', 'A'], 'an inner object has its own names')
})

t.test('an item is complete if it has each named member itself, once, and not null', async t => {
  const completeIn = (text: string): number | undefined =>
    countItems(Buffer.from(text), undefined, ['a', 'b'])?.complete
  t.equal(completeIn('[{"a":1,"b":false},{ "x" : [], "b" : {} , "a" : "" }]'), 2)
  t.equal(
    completeIn('[{"a":1},{"a":null,"b":1},{"x":{"a":1,"b":1}},{"a":1,"a":1,"b":1},{"a":1,"a":1},{},["a","b"],"a",1]'),
    0
  )
  t.equal(completeIn('[{"a":1,"b":1]'), undefined)
  t.equal(countItems(Buffer.from('[{}]'))?.complete, 1)
})

t.test('only the given span is read', async t => {
  const body = Buffer.from('[[1,2],[3]] x')
  t.equal(countItems(body, { from: 0, to: 11 })?.all, 2)
  t.equal(countItems(body, { from: 1, to: 6 })?.all, 2)
  t.equal(countItems(body, { from: 1, to: 5 }), undefined, 'a bracket beyond the span closes nothing')
  t.equal(countItems(body, { from: 1, to: 7 }), undefined, 'nothing may follow inside the span')
  t.equal(countItems(body), undefined)
})

t.test('JSON that is broken at any depth is not read', async t => {
  const isRead = (text: string): boolean =>
    wholeOf(Buffer.from(text)) !== undefined || textsIn(text) !== undefined || namesIn(text) !== undefined
  for (const text of invalidTexts('JSON')) {
    const around = [text, `[0,${text}`, `[0,[${text}]]`, `{"x":{"y":${text}}}`, `[{"y":[${text}],"z":1}]`].filter(
      whole => !isJson(whole)
    )
    t.same(around.filter(isRead), [], JSON.stringify(text))
  }
  t.equal(namesIn('{"\\x":1}'), undefined, 'a name that cannot be unescaped')
})

t.test('a string is read with its escapes resolved, a u64 with its exact digits', async t => {
  const read = (text: string): [string | undefined, bigint | undefined] => {
    const bytes = Buffer.from(text)
    return [stringIn(bytes, wholeOf(bytes)), u64In(bytes, wholeOf(bytes))]
  }
  t.strictSame(read('"a\\"\\u00e9"'), ['a"é', undefined])
  t.strictSame(read('"18446744073709551615"'), ['18446744073709551615', 18446744073709551615n])
  t.strictSame(read('"9007199254740993"'), ['9007199254740993', 9007199254740993n])
  t.strictSame(read('"\\u0031\\u0032"'), ['12', 12n])
  t.strictSame(read('"007"'), ['007', 7n])
  for (const text of ['"18446744073709551616"', '"+1"', '"-1"', '" 1"', '"1.0"', '""', '"0x1"']) {
    t.equal(read(text)[1], undefined, text)
  }
  for (const text of ['1', 'null', '{}', '["1"]', '"\\x"']) t.strictSame(read(text), [undefined, undefined], text)
  t.equal(stringIn(Buffer.from('"a"'), undefined), undefined)
})

t.test('a hundred thousand levels of nesting are read', async t => {
  const depth = 100_000
  const deep = Buffer.from('{"a":['.repeat(depth) + ']}'.repeat(depth))
  t.strictSame(wholeOf(deep), { from: 0, to: deep.length })
  t.strictSame(membersIn(deep)?.get('a'), { from: 5, to: deep.length - 1 })
  t.equal(wholeOf(deep.subarray(0, -1)), undefined)
  t.equal(wholeOf(Buffer.from('{"a":['.repeat(depth) + '}]'.repeat(depth))), undefined)
})

function msOf (work: () => unknown): number {
  const began = performance.now()
  work()
  return performance.now() - began
}

t.test('reading eight megabytes of any body takes linear time', async t => {
  const size = 8_000_000
  const filled = (part: string): Buffer =>
    Buffer.from(`[${Array(Math.floor(size / (part.length + 1))).fill(part).join(',')}]`)
  const bodies = {
    transactions: filled(
      JSON.stringify(
        { version: '1', hash: `0x${'ab'.repeat(32)}`, changes: [{ data: { type: 'a', value: '1' } }], success: true },
        null,
        1
      )
    ),
    numbers: filled('1'),
    'empty strings': filled('""'),
    escapes: filled(`"${'\\"'.repeat(100_000)}"`),
    blanks: filled(`1${' '.repeat(100_000)}`),
    brackets: Buffer.from('['.repeat(size / 2) + ']'.repeat(size / 2)),
    'an open string': Buffer.from(`["${'a'.repeat(size)}`)
  }
  for (const [title, body] of Object.entries(bodies)) {
    // Takes some tens of milliseconds on an idle machine; quadratic time would take hours.
    t.ok(msOf(() => countItems(body)) < 5000, title)
  }
})
