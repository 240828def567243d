import t from 'tap'
import { readInLine } from '../../../src/tools/warm/reads-in-line.js'

t.test('the log of nginx as JSON, and of Caddy as for people, are understood as those in their usual form, and a write in them is never sent', t => {
  const read = { method: 'GET', target: '/v1/blocks/by_version/601' }
  t.match(
    readInLine(
      '{"time_local":"22/Nov/2026:09:15:41 +0000","request":"GET /v1/blocks/by_version/601 HTTP/1.1","status":"200"}'
    ),
    read
  )
  t.match(
    readInLine(
      '2026/11/22 09:15:41.123\tINFO\thttp.log.access\thandled ' +
        'request\t{"request":{"method":"GET","uri":"/v1/blocks/by_version/601"}}'
    ),
    read
  )
  t.equal(readInLine('{"request":"POST /v1/transactions HTTP/1.1","status":"202"}'), 'not kept')
  t.equal(
    readInLine(
      '2026/11/22 09:15:41.123\tINFO\thttp.log.access\thandled ' +
        'request\t{"request":{"method":"POST","uri":"/v1/transactions"}}'
    ),
    'not kept'
  )
  t.equal(
    readInLine(
      '{"request":{"method":"POST","uri":"/v1/transactions","headers":{"User-Agent":["GET ' +
        '/v1/blocks/by_version/601 HTTP/1.1"]}}}'
    ),
    'not kept'
  )
  for (const text of ['{', '{"x":1}', '{"request":null}', 'handled request {']) {
    t.equal(readInLine(text), 'unreadable', text)
  }
  t.end()
})
