import t from 'tap'
import { ParsedRequestCache } from '../../src/cache/parsed-request-cache.js'

const costOf = (text: string): number => 4 * text.length + 1500

t.test('frequently used requests stay cached, and unused ones are evicted', t => {
  const cache = new ParsedRequestCache<{ name: string }>(200_000, costOf)
  cache.put('often', { name: 'often' })
  cache.put('once', { name: 'once' })
  for (let at = 0; at < 10_000; at++) {
    cache.put(`other ${at}`, { name: 'other' })
    if (at % 10 === 0) t.match(cache.get('often'), { name: 'often' })
  }
  t.equal(cache.get('once'), undefined)
  t.match(cache.get('other 9999'), { name: 'other' })
  t.end()
})

t.test('the size limit counts text and overhead per request', t => {
  const cachedCount = (bytes: number, length: number): number => {
    const cache = new ParsedRequestCache<object>(bytes, costOf)
    const names = Array.from({ length: 5000 }, (_, at) => String(at).padStart(length, '0'))
    for (const name of names) cache.put(name, {})
    return names.reverse().filter(name => cache.get(name) !== undefined).length
  }
  t.ok(cachedCount(1e6, 10) <= 1e6 / 1500)
  t.ok(cachedCount(1e6, 1000) <= 1e6 / 2500)
  t.ok(cachedCount(1e6, 10) >= 1e6 / 1540 / 2 - 1, 'and at least half of it is used')
  t.end()
})

t.test('putting a request again replaces it and takes no more memory', t => {
  const cache = new ParsedRequestCache<{ at: number }>(10_000, costOf)
  cache.put('other', { at: -1 })
  for (let at = 0; at < 100; at++) cache.put('same', { at })
  t.same(cache.get('same'), { at: 99 })
  t.same(cache.get('other'), { at: -1 })
  t.end()
})
