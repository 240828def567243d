import fc from 'fast-check'
import t from 'tap'
import { variantKeyOf, type VariantParts } from '../../src/proxy/parsed-request.js'
import { check, seedTitle } from '../support/properties.js'

const json = 'application/json'
const plain: VariantParts = {
  method: 'GET',
  target: '/v1/x',
  accept: undefined,
  contentType: undefined,
  body: undefined
}

t.test('HEAD has the variant key of GET, and other methods have none', t => {
  t.equal(variantKeyOf({ ...plain, method: 'HEAD' }), variantKeyOf(plain))
  for (const method of ['DELETE', 'PUT', 'OPTIONS', 'get', 'QUERY']) {
    t.equal(variantKeyOf({ ...plain, method, body: Buffer.from('{}') }), undefined)
  }
  t.equal(
    variantKeyOf({ ...plain, method: 'POST', contentType: json }),
    undefined,
    'a POST without a body'
  )
  t.equal(variantKeyOf({ ...plain, method: 'POST', body: Buffer.alloc(0) }), undefined, 'a POST without a content type')
  t.not(variantKeyOf({ ...plain, method: 'POST', contentType: json, body: Buffer.alloc(0) }), variantKeyOf(plain))
  t.end()
})

t.test('a very long request gets no variant key', t => {
  t.ok(variantKeyOf({ ...plain, target: `/${'x'.repeat(1000)}` }))
  t.equal(variantKeyOf({ ...plain, target: `/${'x'.repeat(1024)}` }), undefined)
  t.ok(variantKeyOf({ ...plain, method: 'POST', contentType: json, body: Buffer.alloc(2048) }))
  t.equal(variantKeyOf({ ...plain, method: 'POST', contentType: json, body: Buffer.alloc(2049) }), undefined)
  t.equal(variantKeyOf({ ...plain, accept: 'a'.repeat(1025) }), undefined)
  t.equal(variantKeyOf({ ...plain, method: 'POST', contentType: 'a'.repeat(1025), body: Buffer.alloc(0) }), undefined)
  t.end()
})

t.test(`two requests that differ in any part never share a variant key (${seedTitle})`, t => {
  // Uses few characters, all of which a parser allows, so that parts meet in every way.
  const target = fc.array(fc.constantFrom('/', 'a', '?', 'undefined', ','), { maxLength: 4 }).map(parts =>
    `/${parts.join('')}`
  )
  const value = fc.option(
    fc.array(fc.constantFrom('a', ' ', '/', ' /', 'undefined', ','), { maxLength: 4 }).map(parts => parts.join('')),
    { nil: undefined }
  )
  const body = fc.array(fc.constantFrom('a', '\n', ' ', '/', '\n/', 'é'), { maxLength: 4 }).map(parts =>
    Buffer.from(parts.join(''))
  )
  const get = fc.record({
    method: fc.constant('GET'),
    target,
    accept: value,
    contentType: fc.constant(undefined),
    body: fc.constant(undefined)
  })
  const post = fc.record({
    method: fc.constant('POST'),
    target,
    accept: value,
    contentType: value.map(text => text ?? ''),
    body
  })
  const same = (a: VariantParts, b: VariantParts): boolean =>
    a.method === b.method && a.target === b.target && a.accept === b.accept && a.contentType === b.contentType &&
    (a.body === b.body || (a.body !== undefined && b.body !== undefined && a.body.equals(b.body)))
  check(
    fc.property(fc.oneof(get, post), fc.oneof(get, post), (a, b) => same(a, b) || variantKeyOf(a) !== variantKeyOf(b)),
    20_000
  )
  t.end()
})
