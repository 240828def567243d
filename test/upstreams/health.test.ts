import t from 'tap'
import { type UpstreamResponse } from '../../src/api/upstream-response.js'
import { Health, readRetryAfterMs, readUnitsLeft } from '../../src/upstreams/health.js'

t.test('Retry-After is read as seconds or as a date; anything else means one second', async t => {
  const wall = Date.UTC(2026, 0, 1)
  const cases: Array<[text: string | undefined, ms: number]> = [
    ['0', 0],
    ['7', 7000],
    [' 7 ', 7000],
    ['Thu, 01 Jan 2026 00:00:30 GMT', 30_000],
    ['Thu, 01 Jan 2026 00:00:00 GMT', 0],
    ['Wed, 31 Dec 2025 00:00:00 GMT', 0],
    [undefined, 1000],
    ['', 1000],
    ['-1', 1000],
    ['1.5', 1000],
    ['soon', 1000],
    ['2027', 2_027_000],
    ['9999999999', 1000],
    ['Xyz, 99 Foo', 1000]
  ]
  for (const [text, ms] of cases) t.equal(readRetryAfterMs(text, new Date(wall).toUTCString()), ms, String(text))
  t.equal(
    readRetryAfterMs('Thu, 01 Jan 2026 00:00:30 GMT', 'Thu, 01 Jan 2026 00:00:10 GMT'),
    20_000,
    'by the upstream\'s own clock'
  )
})

t.test('reads that were switched off are tried again after a minute', t => {
  const clock = { ms: 0 }
  const health = new Health(() => clock.ms)
  health.recordDisabled('view')
  t.same(['view', 'view in BCS'].map(reads => health.isDisabled(reads)), [true, false])
  clock.ms = 60_000
  t.equal(health.isDisabled('view'), false)
  t.end()
})

t.test('a 429 says in a header or its body how many units are left', t => {
  const leftIn = (headers: Record<string, string>, body = ''): number | undefined =>
    readUnitsLeft({ headers, body: Buffer.from(body) } as unknown as UpstreamResponse)
  t.equal(leftIn({ 'ratelimit-remaining': '7' }), 7)
  t.equal(leftIn({ 'x-ratelimit-remaining': '0' }), 0)
  t.equal(leftIn({ 'x-ratelimit-remaining': '-1' }), undefined)
  t.equal(leftIn({ ratelimit: 'limit=100, remaining=50, reset=5' }), 50)
  t.equal(leftIn({ ratelimit: '"default";r=30;t=12' }), 30)
  t.equal(leftIn({}, '{"message":"slow down","units_remaining":12}'), 12)
  t.equal(leftIn({}, 'Per anonymous IP rate limit exceeded. Limit: 50000 compute units per 300 seconds window.'), 0)
  t.equal(leftIn({}, '{"message":"too many requests"}'), undefined)
  t.end()
})
