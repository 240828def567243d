import t from 'tap'
import { type KnownRequest, KnownRequestCache, ParsedRequest } from '../../src/proxy/parsed-request.js'
import { readOfTarget } from '../support/proxy-context.js'

const known = (): KnownRequest => ({ parsed: new ParsedRequest(readOfTarget('/v1/accounts/0x1/modules')) })
const other = known()

t.test('frequently used requests stay cached, and unused ones are evicted', t => {
  const cache = new KnownRequestCache(200_000)
  const often = known()
  cache.put('often', often)
  cache.put('once', known())
  for (let at = 0; at < 10_000; at++) {
    cache.put(`other ${at}`, other)
    if (at % 10 === 0) t.equal(cache.get('often'), often)
  }
  t.equal(cache.get('once'), undefined)
  t.equal(cache.get('other 9999'), other)
  t.end()
})

t.test('the size limit counts text and overhead per request', t => {
  const cachedCount = (bytes: number, length: number): number => {
    const cache = new KnownRequestCache(bytes)
    const names = Array.from({ length: 5000 }, (_, at) => String(at).padStart(length, '0'))
    for (const name of names) cache.put(name, other)
    return names.reverse().filter(name => cache.get(name) !== undefined).length
  }
  t.ok(cachedCount(1e6, 10) <= 1e6 / 1500)
  t.ok(cachedCount(1e6, 1000) <= 1e6 / 2500)
  t.ok(cachedCount(1e6, 10) >= 1e6 / 1540 / 2 - 1, 'and at least half of it is used')
  t.end()
})

t.test('putting a request again replaces it and takes no more memory', t => {
  const cache = new KnownRequestCache(10_000)
  const last = known()
  cache.put('other', other)
  for (let at = 0; at < 99; at++) cache.put('same', known())
  cache.put('same', last)
  t.equal(cache.get('same'), last)
  t.equal(cache.get('other'), other)
  t.end()
})
