import t from 'tap'
import { ParsedRequestCache } from '../../src/cache/parsed-request-cache.js'

t.test('frequently used requests stay cached, and unused ones are evicted', t => {
  const spellings = new ParsedRequestCache<{ name: string }>(200_000)
  spellings.put('often', { name: 'often' })
  spellings.put('once', { name: 'once' })
  for (let at = 0; at < 10_000; at++) {
    spellings.put(`other ${at}`, { name: 'other' })
    if (at % 10 === 0) t.match(spellings.get('often'), { name: 'often' })
  }
  t.equal(spellings.get('once'), undefined)
  t.match(spellings.get('other 9999'), { name: 'other' })
  t.end()
})

t.test('the size limit counts text and overhead per request', t => {
  const kept = (bytes: number, length: number): number => {
    const spellings = new ParsedRequestCache<object>(bytes)
    const names = Array.from({ length: 5000 }, (_, at) => String(at).padStart(length, '0'))
    for (const name of names) spellings.put(name, {})
    return names.reverse().filter(name => spellings.get(name) !== undefined).length
  }
  t.ok(kept(1e6, 10) <= 1e6 / 1500)
  t.ok(kept(1e6, 1000) <= 1e6 / 2500)
  t.ok(kept(1e6, 10) >= 1e6 / 1540 / 2 - 1, 'and at least half of it is used')
  t.end()
})

t.test('putting a request again replaces it and takes no more room', t => {
  const spellings = new ParsedRequestCache<{ at: number }>(10_000)
  spellings.put('other', { at: -1 })
  for (let at = 0; at < 100; at++) spellings.put('same', { at })
  t.same(spellings.get('same'), { at: 99 })
  t.same(spellings.get('other'), { at: -1 })
  t.end()
})
