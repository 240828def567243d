import t from 'tap'
import { varyOf } from '../../src/proxy/response-builder.js'

t.test('Vary names each header once, and Origin where CORS headers depend on it', async t => {
  const cases = [
    [undefined, undefined, 'Origin'],
    ['', undefined, 'Origin'],
    [',, ,', undefined, 'Origin'],
    ['Accept', 'Accept', 'Accept, Origin'],
    ['ORIGIN', 'ORIGIN', 'ORIGIN'],
    ['Accept,accept , Cookie', 'Accept, Cookie', 'Accept, Cookie, Origin'],
    ['Accept, *', '*', '*']
  ] as const
  for (const [names, without, withOrigin] of cases) {
    t.same([varyOf(names, false), varyOf(names, true)], [without, withOrigin], String(names))
  }
})
