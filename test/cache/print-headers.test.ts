import { validateHeaderName, validateHeaderValue } from 'node:http'
import t from 'tap'
import { joinPrinted, printHeaders } from '../../src/cache/print-headers.js'

t.test('headers are printed in wire format, without Content-Length', async t => {
  t.equal(
    printHeaders([
      'X-NODE-CHAIN-ID',
      '4',
      'content-type',
      'application/json',
      'content-length',
      '3',
      'etag',
      '"a\xe9"'
    ]),
    'X-NODE-CHAIN-ID: 4\r\ncontent-type: application/json\r\netag: "a\xe9"\r\n'
  )
  t.equal(printHeaders([]), '')
})

t.test('headers that Node.js would reject are not printed', async t => {
  const bad: string[][] = [['x', 'a\r\ny: b'], ['x', 'a\nb'], ['x', '\0'], ['x', '\u0100'], ['', 'a'], ['x y', 'a'], [
    'x\r\ny',
    'a'
  ], ['x:', 'a']]
  for (const lines of bad) t.equal(printHeaders(['etag', '"a"', ...lines]), undefined, JSON.stringify(lines))
})

t.test('printed texts are joined, unless one is invalid', async t => {
  t.equal(joinPrinted('a: 1\r\n', 'b: 2\r\n'), 'a: 1\r\nb: 2\r\n')
  t.equal(joinPrinted(undefined, 'b: 2\r\n'), undefined)
  t.equal(joinPrinted('a: 1\r\n', undefined), undefined)
})

t.test('every character is accepted in a name and in a value exactly where Node.js accepts it', async t => {
  const accepts = (check: () => void): boolean => {
    try {
      check()
      return true
    } catch {
      return false
    }
  }
  for (let code = 0; code <= 0xffff; code++) {
    const char = String.fromCharCode(code)
    for (const text of [char, `a${char}`, `${char}a`]) {
      const isName = printHeaders([text, 'a']) !== undefined
      const isValue = printHeaders(['a', text]) !== undefined
      if (isName !== accepts(() => validateHeaderName(text))) t.fail(`name with ${code}`)
      if (isValue !== accepts(() => validateHeaderValue('a', text))) t.fail(`value with ${code}`)
    }
  }
})
