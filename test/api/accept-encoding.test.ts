import fc from 'fast-check'
import t, { type Test } from 'tap'
import { codings, readAcceptEncoding } from '../../src/api/accept.js'
import { check, seedTitle } from '../support/properties.js'

const same = (t: Test, cases: Record<string, readonly string[]>): void => {
  for (const [header, expected] of Object.entries(cases)) {
    t.same(readAcceptEncoding(header), expected, JSON.stringify(header))
  }
}

t.test('a request that accepts no known content coding gets an uncoded response', async t => {
  t.same(readAcceptEncoding(undefined), [])
  same(t, { '': [], ' , ,': [], identity: [], 'deflate, zstd': [], 'identity;q=0': [], '*;q=0': [] })
})

t.test('browsers and common clients get the codings that they list, Brotli before gzip', async t => {
  same(t, {
    'gzip, deflate, br, zstd': ['br', 'gzip'],
    'gzip, deflate, br': ['br', 'gzip'],
    'gzip,deflate': ['gzip'],
    'gzip, compress, deflate, br': ['br', 'gzip'],
    gzip: ['gzip'],
    br: ['br'],
    '*': ['br', 'gzip']
  })
})

t.test('the client\'s q-values decide the order, and q=0 rejects a coding', async t => {
  same(t, {
    'br;q=0.5, gzip;q=0.8': ['gzip', 'br'],
    'br;q=0.50, gzip;q=0.5': ['br', 'gzip'],
    'br;q=0.999, gzip': ['gzip', 'br'],
    'br;q=0, gzip': ['gzip'],
    'br;q=0.000, gzip;q=0.0': [],
    'gzip;q=0.001': ['gzip'],
    'br;q=1., gzip;q=1.000': ['br', 'gzip'],
    'br;q=0.': []
  })
})

t.test('an asterisk stands for the codings that the header does not name', async t => {
  same(t, {
    'gzip;q=0.5, *': ['br', 'gzip'],
    'gzip, *;q=0.5': ['gzip', 'br'],
    'gzip, *;q=0': ['gzip'],
    'br;q=0, *': ['gzip'],
    '*, br;q=0, gzip;q=0': [],
    'br;q=1.0, gzip;q=0.8, *;q=0.1': ['br', 'gzip']
  })
})

t.test('a client that prefers identity gets an uncoded response', async t => {
  same(t, {
    'identity;q=1, gzip;q=0.5': [],
    'identity, *;q=0.5': [],
    'identity;q=0.5, gzip;q=0.4, br;q=0.6': ['br'],
    'identity;q=0.5, gzip;q=0.5': ['gzip'],
    'identity;q=0, gzip;q=0.1': ['gzip'],
    'gzip, identity': ['gzip'],
    'identity;q=0.5, *;q=0.1, gzip': ['gzip']
  })
})

t.test('coding names and q-values are case-insensitive, allow blanks, and x-gzip means gzip', async t => {
  same(t, {
    'GZip, BR': ['br', 'gzip'],
    'x-gzip': ['gzip'],
    'X-GZIP;Q=0.5, br;q=0.4': ['gzip', 'br'],
    ' gzip ; q=0.5\t,\tbr\t;\tq=0.4 ': ['gzip', 'br'],
    'IDENTITY, gzip;q=0.9': []
  })
})

t.test('the lowest q-value counts when a header names a coding twice', async t => {
  same(t, {
    'gzip, gzip;q=0': [],
    'gzip;q=0, gzip': [],
    'gzip;q=0, x-gzip': [],
    'br;q=0.2, gzip;q=0.5, br': ['gzip', 'br'],
    '*, *;q=0': []
  })
})

const weights = 'q=2|q=abc|q=0.1234|q=1.001|q=-0|q=+1|q=.5|q=1e0|q=0x1|q=|q||q= 1|q =1|q="1"|level=9|q=1;level=9|' +
  'level=9;q=1|q=1;|q=1 1'
const malformed = weights.split('|')
  .flatMap(weight => ['br', 'gzip', 'x-gzip', 'identity', '*'].map(name => `${name};${weight}`))
  .concat('br gzip|br=1|"br"|brotli|gzip2|x-br|x-identity|__proto__|constructor;q=0'.split('|'))

t.test('malformed and unknown codings are ignored', async t => {
  for (const item of malformed) {
    t.same(readAcceptEncoding(item), [], item)
    t.same(readAcceptEncoding(`${item}, gzip;q=0.5`), ['gzip'], item)
    t.same(readAcceptEncoding(`*;q=0.3, ${item}`), ['br', 'gzip'], item)
  }
})

const item = fc.tuple(
  fc.constantFrom('br', 'gzip', 'x-gzip', 'identity', '*', 'deflate', 'zstd'),
  fc.constantFrom('', ';q=0', ';q=0.001', ';q=0.5', '; q=0.75', ';q=1')
).map(parts => parts.join(''))

t.test(`the order of codings and malformed items between them do not matter (${seedTitle})`, async () => {
  check(
    fc.property(
      fc.array(item),
      fc.array(fc.constantFrom(...malformed)),
      fc.infiniteStream(fc.nat()),
      (items, junk, keys) => {
        const shuffled = [...items, ...junk].map(text => ({ text, key: keys.next().value ?? 0 })).sort((a, b) =>
          a.key - b.key
        ).map(({ text }) => text)
        return readAcceptEncoding(items.join(',')).join() === readAcceptEncoding(shuffled.join(',')).join()
      }
    )
  )
})

t.test(`a coding that the client did not name, or rejected, is never sent (${seedTitle})`, async () => {
  const text = fc.array(fc.oneof(item, fc.string(), fc.constantFrom(',', ';', 'q=', ' ')), { maxLength: 12 }).map(
    parts => parts.join('')
  )
  check(
    fc.property(
      fc.oneof(
        text,
        fc.array(item).map(items => items.join(', '))
      ),
      header =>
        readAcceptEncoding(header).every(coding =>
          codings.includes(coding) && (header.toLowerCase().includes(coding) || header.includes('*')) &&
          !new RegExp(`(^|,)${coding};q=0(,|$)`).test(header)
        )
    ),
    1000
  )
})

t.test('a header built to be slow to parse is parsed in linear time', async t => {
  const started = process.hrtime.bigint()
  for (const part of [' ', ',', ';', 'br', 'br;q=0.', 'br;', '\t,', ';q=0']) {
    readAcceptEncoding('gzip' + part.repeat(64 * 1024 / part.length) + 'x')
  }
  t.ok(process.hrtime.bigint() - started < 2_000_000_000n)
})
