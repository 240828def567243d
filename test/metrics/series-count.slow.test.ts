import { type IncomingMessage, type ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import { type Scraped, maxSeries, scrape } from '../support/scrape.js'
import { metricList, statusLabels } from '../../src/metrics/definitions.js'
import { type TestRequest } from '../support/client.js'
import { sendRaw } from '../support/raw.js'
import { respondOk, stamps, startStubUpstream } from '../support/stub-upstream.js'
import { type TestVarve, varveAt } from '../support/varve.js'

const names = { upstreams: ['node'], clients: ['shop'], release: ['0.1.0'], chain: ['4'] }
const modules = '/v1/accounts/0x1/modules?ledger_version='
const statuses = Array.from({ length: 800 }, (_, nth) => 200 + nth)
const codes = ['version_pruned', 'no_such_code', 'a"b\\c\nd', '{x="y"}', 'x'.repeat(2000)]
const methods = ['BREW', 'PROPFIND', 'PATCH', 'DELETE', 'PUT', 'OPTIONS', 'TRACE', 'QUERY', 'M-SEARCH', 'PURGE']
const heads = [
  'GET /v1/info HTTP/9.9\r\n\r\n',
  'G\u0000T / HTTP/1.1\r\n\r\n',
  'FOO\r\n\r\n',
  'GET  HTTP/1.1\r\nHost: x\r\n\r\n',
  'CONNECT evil:1 HTTP/1.1\r\nHost: evil\r\n\r\n',
  'GET /v1/info HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n',
  'POST /v1/transactions/simulate HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n',
  `GET /${'a'.repeat(20_000)} HTTP/1.1\r\nHost: x\r\n\r\n`,
  'GET http://evil.example/v1/info HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
  'GET /v1/info HTTP/1.1\r\nHost: "}\\\r\nConnection: close\r\n\r\n',
  'GET /v1/info HTTP/1.1\r\nHost: x\r\nExpect: the-unexpected\r\nConnection: close\r\n\r\n'
]

/** Returns any status and error code, or fails in many ways, to make as many series as it can. */
function respondWithHostileHeaders (request: IncomingMessage, response: ServerResponse): void {
  const [, what = '', of = '404'] = /hostile=([a-z]+)(?:-(\d+))?/.exec(request.url ?? '') ??
    /ledger_version=()(\d+)/.exec(request.url ?? '') ?? []
  request.resume()
  const { socket } = request
  switch (what) {
    case 'hang':
      return
    case 'cut':
      response.writeHead(200, { 'content-length': '10', ...stamps() }).write('abc', () => socket.destroy())
      return
    case 'garbage':
      socket.end('what is this\r\n\r\n')
      return
    case 'gone':
      socket.destroy()
      return
    case 'coded':
      socket.end('HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n')
      return
    case 'early':
      socket.end(`HTTP/1.1 ${of} Odd\r\n\r\n`)
      return
    case 'code':
      response.writeHead(400, { 'content-type': 'application/json', ...stamps() }).end(
        JSON.stringify({ message: 'm', error_code: codes[Number(of)], vm_error_code: Number(of) })
      )
      return
    case 'well':
      return respondOk(response, '[]')
    default:
      response.writeHead(Number(of), {
        'content-type': 'application/json',
        ...stamps({ 'x-aptos-ledger-oldest-version': '1' })
      }).end('{}')
  }
}

async function requestAll (
  varve: TestVarve,
  requests: ReadonlyArray<readonly [target: string, how?: TestRequest]>
): Promise<void> {
  const queue = [...requests]
  await Promise.all(Array.from({ length: 16 }, async () => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      await varve.get(next[0], next[1]).catch(() => {})
    }
  }))
}

/** Expects every metric to have only the published labels and number of series. */
function checkBudget (t: Test, scraped: ReadonlyMap<string, Scraped>): void {
  for (const row of metricList.filter(({ name }) => scraped.has(name))) {
    const series = scraped.get(row.name)?.series ?? []
    t.ok(series.length <= maxSeries(row, { upstreams: 1, clients: 1 }), `${row.name}: ${series.length} series`)
    for (const { labels: { le, ...labels } } of series) {
      for (const [label, value] of Object.entries(labels)) {
        const values = row.labels[label] ?? []
        const isSpace = label === 'space' && /^[0-9a-f]{16}$/.test(value)
        if (!isSpace && !(typeof values === 'string' ? names[values] : values).includes(value)) {
          t.fail(`${row.name}: ${label}="${value}"`)
        }
      }
    }
  }
  t.same(
    [...scraped.keys()].filter(name =>
      !name.startsWith('process_') && !name.startsWith('nodejs_') && !metricList.some(row => row.name === name)
    ),
    []
  )
}

t.test('no client or upstream can create more series or other labels than each metric publishes', async t => {
  const upstream = await startStubUpstream(t, respondWithHostileHeaders)
  const varve = await varveAt(t, upstream.url, {
    upstream: { timeoutMs: 2000, maxConcurrent: 16 },
    clients: { keys: [{ name: 'shop', key: 'k-shop-51', requestsPerSecond: null }] },
    passThrough: 'all',
    latest: { infoMs: 0, gasMs: 0 }
  })
  const before = await scrape(varve.adminUrl)
  checkBudget(t, before)
  // Sends 429 last, because varve stops requests to an upstream that it backs off from.
  await requestAll(varve, statuses.filter(status => status !== 429).map(status => [`/v1/any?hostile=status-${status}`]))
  await requestAll(
    varve,
    statuses.filter(status => status % 10 === 3 || status % 100 === 0).flatMap(status => [
      [`${modules}${status}`, {
        headers: { host: `${status}.evil.example`, 'x-api-key': `invented-${status}`, 'user-agent': `"}${status}` }
      }],
      [`/v1/made/up/${status}/${'x'.repeat(status % 50)}`, {
        method: methods[status % methods.length] ?? 'GET',
        headers: { authorization: `Bearer ${status}` }
      }]
    ])
  )
  await requestAll(varve, codes.map((_code, nth) => [`/v1/any?hostile=code-${nth}`]))
  await requestAll(varve, [100, 101, 102, 103, 150, 199].map(status => [`/v1/any?hostile=early-${status}`]))
  for (const what of ['hang', 'cut', 'garbage', 'gone', 'coded', 'status-429']) {
    await requestAll(varve, [[`/v1/any?hostile=${what}`], ['/v1/view', { method: 'POST', body: what }], [
      '/v1/transactions/simulate',
      { method: 'POST', body: what }
    ]])
  }
  await requestAll(varve, [['/v1/any?hostile=well', { headers: { 'x-api-key': 'k-shop-51' } }], [
    '/v1/transactions/simulate?a',
    { method: 'POST', headers: { 'content-encoding': 'br' }, body: 'x' }
  ]])
  for (const head of heads) await sendRaw(varve.url, head)
  const scraped = await scrape(varve.adminUrl)
  checkBudget(t, scraped)

  const counted = (name: string, label: string): Set<string> =>
    new Set(scraped.get(name)?.series.flatMap(({ labels, value }) => value > 0 ? [labels[label] ?? ''] : []))
  t.strictSame(
    [...statusLabels].filter(label => !counted('varve_requests_total', 'status').has(label)),
    [],
    'every listed status was seen, and every class'
  )
  for (const label of ['timeout', 'truncated', 'invalid_response', '4xx', 'other']) {
    t.ok(counted('varve_upstream_requests_total', 'status').has(label), label)
  }
  t.notOk(
    counted('varve_requests_total', 'status').has('418'),
    'an unlisted status is counted by its class'
  )
  t.same([...counted('varve_client_requests_total', 'client')], ['shop'])
})
