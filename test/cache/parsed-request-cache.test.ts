import t from 'tap'
import { ParsedRequestCache } from '../../src/cache/parsed-request-cache.js'

t.test('frequently used requests stay cached, and unused ones are evicted', t => {
  const cache = new ParsedRequestCache<{ name: string }>(200_000)
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
    const cache = new ParsedRequestCache<object>(bytes)
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
  const cache = new ParsedRequestCache<{ at: number }>(10_000)
  cache.put('other', { at: -1 })
  for (let at = 0; at < 100; at++) cache.put('same', { at })
  t.same(cache.get('same'), { at: 99 })
  t.same(cache.get('other'), { at: -1 })
  t.end()
})

t.test('a deleted request is gone, and its room is free again', t => {
  const cache = new ParsedRequestCache<object>(1000, key => key.length)
  for (let at = 0; at < 100; at++) {
    cache.put('x'.repeat(400), {})
    cache.delete('x'.repeat(400))
    t.equal(cache.get('x'.repeat(400)), undefined)
    cache.delete('unknown')
  }
  cache.put('a'.repeat(400), {})
  cache.put('b'.repeat(100), {})
  cache.put('c'.repeat(400), {})
  // The second put of c made a the older half.
  cache.delete('a'.repeat(400))
  t.same(['a'.repeat(400), 'b'.repeat(100), 'c'.repeat(400)].map(key => cache.get(key)), [undefined, {}, {}])
  t.end()
})
