import t from 'tap'
import { sendRaw, statusesIn } from '../support/raw.js'
import { respondOk, startEmptyUpstream, startStubUpstream } from '../support/stub-upstream.js'
import { varveAt } from '../support/varve.js'

const modules = '/v1/accounts/0x1/modules?ledger_version=500'
const chunkOfOne = '1\r\nx\r\n'

function chunkedRequest (head: string, chunks: string): string {
  return `${head} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}0\r\n\r\n` +
    'GET /v1/smuggled HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'
}

t.test('a body may come in 16,384 chunks; one of more is rejected, and its connection is closed', async t => {
  const lengths: Array<string | undefined> = []
  const stub = await startStubUpstream(t, (request, response) => {
    lengths.push(request.headers['content-length'])
    request.resume().on('end', () => respondOk(response, '[]'))
  })
  const varve = await varveAt(t, stub.url, { passThrough: 'all' })
  const post = 'POST /v1/transactions'
  t.same(statusesIn(await sendRaw(varve.url, chunkedRequest(post, chunkOfOne.repeat(16_384)))), [200, 200])
  t.same(lengths, ['16384', undefined])
  const rejected = await sendRaw(varve.url, chunkedRequest(post, chunkOfOne.repeat(16_385)))
  t.same(statusesIn(rejected), [413])
  t.match(rejected, /Connection: close\r\n[^]*too many chunks/)
  t.equal(stub.requests.length, 2)
})

t.test('a chunked body of a GET is read and has no meaning; beyond 16 KB it is rejected', async t => {
  const stub = await startEmptyUpstream(t)
  const varve = await varveAt(t, stub.url)
  for (let round = 0; round < 3; round++) {
    t.same(statusesIn(await sendRaw(varve.url, chunkedRequest(`GET ${modules}`, chunkOfOne))), [200, 200])
  }
  t.equal(stub.requests.filter(request => request.includes('modules')).length, 1, 'later ones are hits')
  const rejected = await sendRaw(varve.url, chunkedRequest(`GET ${modules}`, chunkOfOne.repeat(16_385)))
  t.same(statusesIn(rejected), [413])
  t.match(rejected, /Connection: close\r\n/)
})

t.test('a response that does not wait for a chunked body ends its connection', async t => {
  const stub = await startEmptyUpstream(t)
  const key = { name: 'team', key: 'a-long-enough-key', requestsPerSecond: null }
  const varve = await varveAt(t, stub.url, { clients: { required: true, keys: [key] } })
  const [unfinished = ''] = chunkedRequest('POST /v1/view', chunkOfOne).split('0\r\n')
  const rejected = await sendRaw(varve.url, unfinished)
  t.same(statusesIn(rejected), [401])
  t.match(rejected, /Connection: close\r\n/)
})
