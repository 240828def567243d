import t from 'tap'
import { printHeaders } from '../../src/cache/print-headers.js'

t.test('lines are printed as they go onto the wire, but for the length', async t => {
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

t.test('what Node would not print is not printed, wherever it came from', async t => {
  const bad: string[][] = [['x', 'a\r\ny: b'], ['x', 'a\nb'], ['x', '\0'], ['x', '\u0100'], ['', 'a'], ['x y', 'a'], [
    'x\r\ny',
    'a'
  ], ['x:', 'a']]
  for (const lines of bad) t.equal(printHeaders(['etag', '"a"', ...lines]), undefined, JSON.stringify(lines))
})
