import { gunzipSync, gzipSync } from 'node:zlib'
import { type ServerResponse } from 'node:http'
import t from 'tap'
import { configSchema } from '../../src/config/schema.js'
import { sendRequest, tableItemLookup } from '../support/client.js'
import {
  headAt,
  respondOk,
  respondToIndex,
  stamps,
  startChangingUpstream,
  startHeldUpstream,
  startStubUpstream
} from '../support/stub-upstream.js'
import { serveRead } from '../../src/proxy/serve-read.js'
import { ErrorResponse } from '../../src/api/error-response.js'
import { contextAt, readOfTarget, resolvedContextAt as proxyAt } from '../support/proxy-context.js'
import { scrape } from '../support/scrape.js'
import { until } from '../support/until.js'
import { type ConfigChange, varveAt } from '../support/varve.js'

const modules = '/v1/accounts/0x1/modules?ledger_version=500'
const latest = '/v1/accounts/0x1/modules'
const table = '/v1/tables/0xab/item?ledger_version=500'
const status = 'cache-status'
// Head of another chain: lower, at a later time.
const otherChain = { ...headAt(100), 'x-aptos-ledger-timestampusec': '9000000' }

const notFound = (key: string): string =>
  JSON.stringify({
    message: `Table Item not found by Table handle(0xab), Table key(${key}) and Ledger version(500)`,
    error_code: 'table_item_not_found',
    vm_error_code: null
  })

t.test('a miss is fetched, stored and served; the next read is a hit without an upstream request', async t => {
  const stub = await startStubUpstream(t, (_request, response, nth) => {
    respondOk(response, `[${nth}]`)
  })
  const varve = await varveAt(t, stub.url)
  const miss = await varve.get(modules)
  t.match(miss, {
    status: 200,
    body: '[1]',
    headers: {
      [status]: 'varve; fwd=uri-miss; fwd-status=200; stored',
      'content-type': 'application/json; charset=utf-8',
      vary: 'Accept, Accept-Encoding',
      'cache-control': 'no-cache'
    }
  })
  const hit = await varve.get('/v1/accounts/0000001/modules?x=y&ledger_version=%2B0500')
  t.match(hit, {
    status: 200,
    body: '[1]',
    headers: { [status]: 'varve; hit; detail=memory', etag: miss.headers.etag }
  })
  t.same(stub.requests, [`GET /v1/accounts/0x${'1'.padStart(64, '0')}/modules?ledger_version=500`])
  t.equal(await varve.metric('varve_requests_total{endpoint="account_modules",outcome="miss",status="200"}'), 1)
  t.equal(await varve.metric('varve_requests_total{endpoint="account_modules",outcome="hit_memory",status="200"}'), 1)
  t.equal(
    await varve.metric('varve_request_duration_seconds_count{endpoint="account_modules",outcome="hit_memory"}'),
    1
  )
  t.equal(
    await varve.metric('varve_upstream_requests_total{upstream="node",endpoint="account_modules",status="200"}'),
    1
  )
  t.equal(await varve.metric('varve_cache_entries{tier="memory"}'), 1)
  t.equal(await varve.metric('varve_cache_writes_total{tier="memory"}'), 1)
})

t.test('a body arrives as the node printed it: blanks, escapes and the text of numbers', async t => {
  const body = '{ "b" : 18446744073709551615, "a":1.0e0,"a":"\\u00e9\\/" }\n'
  const stub = await startStubUpstream(t, (_request, response) => {
    respondOk(response, body)
  })
  const varve = await varveAt(t, stub.url)
  for (const target of [modules, modules, latest]) t.equal((await varve.get(target)).body, body)
  t.equal(stub.requests.length, 2)
})

t.test('a client that gives up cancels no other, even the first, and the response is stored', async t => {
  const upstream = await startHeldUpstream(t)
  const varve = await varveAt(t, upstream.url)
  const leaving = new AbortController()
  const leader = fetch(varve.url + modules, { signal: leaving.signal })
  const response = await upstream.next()
  const joiner = varve.get(modules)
  const hasConnections = async (count: number): Promise<void> => {
    await until(async () => await varve.metric('varve_connections') === count, `${count} connections`)
  }
  await hasConnections(2)
  leaving.abort()
  await t.rejects(leader)
  await hasConnections(1)
  respondOk(response, '[]')
  t.match(await joiner, { status: 200, body: '[]' })
  t.match(await varve.get(modules), { headers: { [status]: 'varve; hit; detail=memory' } })
  t.equal(upstream.requests.length, 1)
})

t.test('a value is shared by all variants of a table key, a not-found by equal texts only', async t => {
  const stub = await startStubUpstream(t, (request, response) => {
    request.setEncoding('utf8').once('data', (text: string) => {
      const { key } = JSON.parse(text) as { key: string }
      if (BigInt(key) === 7n) return respondOk(response, '"value"')
      response.writeHead(404, { 'content-type': 'application/json', ...stamps() }).end(notFound(JSON.stringify(key)))
    })
  })
  const varve = await varveAt(t, stub.url)
  const rows: ReadonlyArray<readonly [key: string, code: number, cacheStatus: RegExp]> = [
    ['7', 200, /stored/],
    ['007', 200, /hit/],
    ['8', 404, /fwd-status=404; stored/],
    ['08', 404, /stored/],
    ['8', 404, /hit/]
  ]
  for (const [key, code, cacheStatus] of rows) {
    const body = code === 200 ? '"value"' : `Table key(\\"${key}\\")`
    t.match(await varve.get(table, tableItemLookup('u64', `"${key}"`)), {
      status: code,
      body,
      headers: { [status]: cacheStatus, etag: /"/ }
    }, key)
  }
  t.equal(stub.requests.length, 3)
  const together = ['9', '09', '009'].map(async key => await varve.get(table, tableItemLookup('u64', `"${key}"`)))
  const bodies = (await Promise.all(together)).map(({ body }) => /key\(\\"(\d+)/.exec(body)?.[1])
  t.same(bodies, ['9', '09', '009'], 'also if they arrive together')
})

t.test('a response that is not proven history is forwarded and fetched each time, with the reason', async t => {
  const large = (length: number) => (response: ServerResponse): void => {
    respondOk(response, `["${'x'.repeat(length)}"]`)
  }
  const cases: ReadonlyArray<readonly [reason: string, respond: (response: ServerResponse) => void, ConfigChange?]> = [
    ['status', response => {
      response.writeHead(503, { 'content-type': 'application/json', 'retry-after': '7' }).end('{"message":"busy"}')
    }],
    ['status', response => {
      response.writeHead(429, { 'content-type': 'text/plain' }).end('slow down')
    }],
    ['vetoed', response => {
      respondOk(response, '[]', { 'cache-control': 'no-store' })
    }],
    ['outside_window', response => {
      respondOk(response, '[]', { 'x-aptos-ledger-oldest-version': '501' })
    }],
    ['too_large', large(1024 * 1024), { cache: { maxEntryMb: 1 } }],
    ['too_large', large(1_500_000), { cache: { memory: { maxMb: 1 } } }]
  ]
  for (const [reason, respond, change] of cases) {
    const stub = await startStubUpstream(t, (_request, response) => {
      respond(response)
    })
    const varve = await varveAt(t, stub.url, { pruned: { answerLocally: false }, ...change })
    for (let round = 0; round < 2; round++) {
      const { headers } = await varve.get(modules)
      t.match(headers[status], new RegExp(`^varve; fwd=uri-miss; fwd-status=\\d+; detail=${reason}$`))
      t.equal(headers['cache-control'], 'no-store')
    }
    t.equal(stub.requests.length, 2)
    t.equal(await varve.metric(`varve_not_stored_total{endpoint="account_modules",reason="${reason}"}`), 2)
    t.equal(await varve.metric('varve_cache_writes_total{tier="memory"}'), 0)
  }
})

t.test('an upstream error passes untouched, with its Retry-After and without its cookies', async t => {
  const stub = await startStubUpstream(t, (_request, response) => {
    response.writeHead(503, {
      'content-type': 'text/plain',
      'retry-after': '7',
      'set-cookie': 'a=b',
      trailer: 'x',
      'x-secret': '1'
    }).end('busy')
  })
  const varve = await varveAt(t, stub.url)
  const { status: code, headers, body } = await varve.get(modules)
  t.same([code, body, headers['retry-after'], headers['content-type']], [503, 'busy', '7', 'text/plain'])
  t.same([headers['set-cookie'], headers.trailer, headers['x-secret']], [undefined, undefined, undefined])
  t.match(await varve.get(latest), {
    status: 503,
    body: 'busy',
    headers: { [status]: 'varve; fwd=bypass', 'x-node-ledger-version': '1000' }
  }, 'latest reads too, under the known position, since this response has none')
})

t.test('a 200 that may be false or cut short becomes a 503, and no redirect is forwarded', async t => {
  const lines = Object.entries(stamps()).map(line => line.join(': ')).join('\r\n')
  const cases: ReadonlyArray<readonly [reason: string, respond: (response: ServerResponse) => void]> = [
    ['no_position', response => {
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"error_code":"internal_error"}')
    }],
    ['wrong_chain', response => {
      respondOk(response, '[]', { 'x-aptos-chain-id': '9' })
    }],
    ['wrong_type', response => {
      respondOk(response, '<html>', { 'content-type': 'text/html' })
    }],
    ['wrong_coding', response => {
      respondOk(response, 'zzz', { 'content-encoding': 'gzip' })
    }],
    // Delimited by the end of the connection, so it may be cut short.
    ['incomplete', response => {
      response.socket?.end(`HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n${lines}\r\n\r\n[{"bytecode":"0x12`)
    }],
    ['incomplete', response => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': '100', ...stamps() }).write('[')
      setImmediate(() => {
        response.destroy()
      })
    }],
    ...[204, 206, 302, 304].map((
      code
    ): readonly [string, (response: ServerResponse) => void] => ['status', response => {
      response.writeHead(code, { ...stamps(), location: 'http://127.0.0.1:1/' }).end()
    }])
  ]
  for (const [reason, respond] of cases) {
    const stub = await startStubUpstream(t, (_request, response) => {
      respond(response)
    })
    const varve = await varveAt(t, stub.url)
    t.match(await varve.get(modules), {
      status: 503,
      headers: {
        [status]: 'varve; detail=unavailable',
        'retry-after': '1',
        'x-node-chain-id': '4',
        location: undefined
      },
      body: /"error_code":"internal_error","vm_error_code":null/
    }, reason)
    t.equal(await varve.metric(`varve_not_stored_total{endpoint="account_modules",reason="${reason}"}`), 1, reason)
  }
})

t.test('a coded error of a gateway keeps its coding', async t => {
  const stub = await startStubUpstream(t, (_request, response) => {
    response.writeHead(429, { 'content-type': 'text/plain', 'content-encoding': 'gzip' }).end(gzipSync('slow down'))
  })
  const got = await (await varveAt(t, stub.url)).get(modules)
  t.match(got, { status: 429, headers: { 'content-encoding': 'gzip' } })
  t.equal(gunzipSync(got.bytes).toString(), 'slow down')
})

t.test('an upstream error fails only the first read: the coalesced ones fetch once more, together', async t => {
  const upstream = await startHeldUpstream(t)
  const { serve } = await proxyAt(t, upstream.url)
  for (const [target, failing] of [[modules, 500], [`${modules}&limit=1`, 429]] as const) {
    const reads = Array.from({ length: 11 }, async () => await serve(target))
    const first = await upstream.next()
    first.writeHead(failing, stamps()).end('{}')
    respondOk(await upstream.next(), '["second"]')
    const bodies = (await Promise.all(reads)).map(([, body]) => body)
    t.same(bodies, ['{}', ...Array(10).fill('["second"]')], `${failing}`)
  }
})

t.test('a denial of a version below the served head is retried once, and never forwarded', async t => {
  const denial = '{"message":"Ledger version not found","error_code":"version_not_found","vm_error_code":null}'
  const startDenying = async (times: number, head: number): ReturnType<typeof startStubUpstream> =>
    await startStubUpstream(t, (_request, response, nth) => {
      if (nth > times) respondOk(response, '[]')
      else response.writeHead(404, { 'content-type': 'application/json', ...stamps(headAt(head)) }).end(denial)
    })
  const rows: ReadonlyArray<readonly [why: string, times: number, count: number, code: number, requests: number]> = [
    ['one lagging upstream behind a balancer', 1, 1, 200, 2],
    ['an upstream that stays behind', Infinity, 1, 503, 2],
    ['each of two upstreams is tried once', Infinity, 2, 503, 2]
  ]
  for (const [why, times, count, code, requestCount] of rows) {
    const stubs = await Promise.all(Array.from({ length: count }, async () => await startDenying(times, 400)))
    const { upstreams } = configSchema.parse({ upstreams: stubs.map(({ url }) => ({ url })) })
    t.match(await (await varveAt(t, '', { upstreams })).get(modules), {
      status: code,
      headers: { 'x-node-ledger-version': '1000' }
    }, why)
    t.same(stubs.map(({ requests }) => requests.length), Array(count).fill(requestCount / count), why)
  }
  const future = await startDenying(Infinity, 1000)
  const got = await (await varveAt(t, future.url)).get(`${latest}?ledger_version=5000`)
  t.match(got, { status: 404, body: denial }, 'a future version may be denied')
  t.equal(future.requests.length, 1)
})

t.test('hits carry the current position, latest reads their own stamp', async t => {
  const { state, ...stub } = await startChangingUpstream(t)
  state.respond = response => {
    respondOk(response, '[]', { ...state.stamps, 'x-aptos-cursor': 'ab', 'x-aptos-gas-used': '3' })
  }
  const varve = await varveAt(t, stub.url)
  t.match((await varve.get(modules)).headers, {
    'x-node-ledger-version': '1000',
    'x-aptos-ledger-version': '1000',
    'x-node-epoch': '2'
  })
  state.stamps = headAt(2000)
  t.match((await varve.get(latest)).headers, {
    [status]: 'varve; fwd=bypass',
    'cache-control': 'no-store',
    'x-node-ledger-version': '2000',
    'x-node-cursor': 'ab',
    'x-aptos-cursor': 'ab',
    'x-node-gas-used': '3'
  })
  const hit = await varve.get(modules)
  t.match(hit.headers, {
    [status]: /hit/,
    'x-node-ledger-version': '2000',
    'x-node-ledger-timestampusec': '2000000',
    'x-node-block-height': '200',
    'x-node-ledger-oldest-version': '10',
    'x-node-cursor': 'ab'
  })
  t.ok(hit.rawNames.includes('X-NODE-LEDGER-OLDEST-VERSION'), 'the specification\'s names in its own case')
  t.match(
    await varve.get(`${latest}?ledger_version=2000`),
    { headers: { [status]: /hit/ } },
    'the latest response is stored at its version'
  )
  t.equal(stub.requests.length, 2)
})

t.test('only the configured header families are sent', async t => {
  const stub = await startStubUpstream(t, (_request, response) => {
    respondOk(response, '[]', { 'x-aptos-cursor': 'ab' })
  })
  for (const [emit, prefixes] of [['node', ['X-NODE-']], ['upstream', ['x-aptos-']], [undefined, []]] as const) {
    const varve = await varveAt(t, stub.url, { headers: { emit: emit === undefined ? [] : [emit] } })
    const names = (await varve.get(modules)).rawNames.filter(name => /^x-(?!request-id)/i.test(name))
    t.same([...new Set(names.map(name => /^x-\w+-/i.exec(name)?.[0]))], prefixes)
    t.equal(names.length, 8 * prefixes.length)
  }
})

t.test('a stale latest read is fetched again, and counted if it stays stale', async t => {
  const rows: ReadonlyArray<
    readonly [
      why: string,
      headOf: (nth: number) => Record<string, string>,
      body: string,
      head: string,
      stale: number,
      requests: number
    ]
  > = [
    ['a balancer with one lagging upstream', nth => nth === 1 ? headAt(900) : {}, '[2]', '1000', 0, 2],
    ['of two stale responses the furthest is sent, with its own stamp', nth => headAt(900 - nth), '[1]', '899', 1, 2],
    ['after a reset the old served head no longer counts', () => otherChain, '[1]', '100', 0, 1]
  ]
  for (const [why, headOf, body, head, stale, requests] of rows) {
    let count = 0
    const stub = await startStubUpstream(t, (_request, response, nth) => {
      count = nth
      respondOk(response, `[${nth}]`, headOf(nth))
    }, (_request, response) => {
      respondOk(response, '{}', count > 0 && headOf(count) === otherChain ? otherChain : {})
    })
    const varve = await varveAt(t, stub.url)
    t.match(await varve.get(latest), { status: 200, body, headers: { 'x-node-ledger-version': head } }, why)
    t.equal(stub.requests.length, requests, why)
    t.equal(await varve.metric('varve_stale_latest_total'), stale, why)
  }
})

t.test('a block carries the current position, and one below the served head is never denied', async t => {
  const stub = await startStubUpstream(t, (_request, response, nth) => {
    if (nth === 1) return respondOk(response, '{}', headAt(900))
    response.writeHead(404, { 'content-type': 'application/json', ...stamps(headAt(900)) }).end(
      JSON.stringify({ error_code: nth < 4 ? 'block_not_found' : 'version_not_found' })
    )
  })
  const varve = await varveAt(t, stub.url)
  t.match(await varve.get('/v1/blocks/by_version/500'), {
    status: 200,
    headers: { [status]: 'varve; fwd=uri-miss; fwd-status=200; detail=unreadable', 'x-node-ledger-version': '1000' }
  })
  t.equal(await varve.metric('varve_stale_latest_total'), 0)
  t.match(await varve.get('/v1/blocks/by_version/500'), { status: 503 })
  t.equal(stub.requests.length, 3)
  t.match(await varve.get('/v1/blocks/by_version/5000'), { status: 404 }, 'a future block may be denied')
})

t.test('a read that waited for admission sees what was stored meanwhile, and the chain of then', async t => {
  const { state, ...stub } = await startChangingUpstream(t)
  const { context, serve } = await proxyAt(t, stub.url)
  const read = async (target: string, admit: () => Promise<unknown>): ReturnType<typeof serveRead> =>
    await serveRead(context, readOfTarget(target), {
      id: undefined,
      admit: async () => {
        await admit()
      }
    })
  t.match(await read(modules, serve), { name: 'hit', tier: 'memory' })
  t.equal(stub.requests.length, 1)
  const before = context.tracker.space
  const reset = async (): Promise<void> => {
    state.stamps = { ...otherChain, 'x-aptos-ledger-version': '600' }
    await context.resolveChain()
  }
  t.match(await read(`${latest}?ledger_version=501`, reset), { name: 'miss' })
  t.not(context.tracker.space, before)
})

t.test('a read over its limit is rejected before any fetch or wait, an equal read of another not', async t => {
  const stub = await startStubUpstream(t, (_request, response) => {
    respondOk(response, '[]')
  })
  const { context } = contextAt(t, stub.url)
  await context.resolveChain()
  const rejection = { message: 'too many requests' }
  const limited = {
    id: 'limited',
    admit: async () => {
      throw new ErrorResponse(429, 'web_framework_error', 'too many requests')
    }
  }
  const [mine, others] = await Promise.allSettled([
    serveRead(context, readOfTarget(modules), limited),
    serveRead(context, readOfTarget(modules))
  ])
  t.match([mine, others], [{ status: 'rejected', reason: { status: 429 } }, {
    status: 'fulfilled',
    value: { name: 'miss' }
  }])
  for (const target of ['/v1/accounts/0x2/modules', '/v1/accounts/0x2/modules?ledger_version=9999', '/v1/info']) {
    await t.rejects(serveRead(context, readOfTarget(target), limited), rejection)
  }
  t.equal(stub.requests.length, 1)
  await t.rejects(
    serveRead(context, { ...readOfTarget('/v1/accounts/0x2/modules'), minVersion: 9999n }, limited),
    rejection,
    'before it waits'
  )
  t.match(await serveRead(context, readOfTarget(modules), limited), { name: 'hit', tier: 'memory' })
})

t.test('after a chain reset nothing of the old chain is served', async t => {
  const { state, url } = await startChangingUpstream(t)
  const varve = await varveAt(t, url)
  t.equal((await varve.get(modules)).body, '[1]')
  state.stamps = { ...otherChain, 'x-aptos-ledger-version': '600', 'x-aptos-block-height': '60' }
  t.match(await varve.get('/v1/accounts/0x2/modules?ledger_version=500'), {
    body: '[2]',
    headers: { [status]: /detail=wrong_chain/, 'x-node-ledger-version': '600' }
  })
  t.equal(await varve.metric('varve_chain_resets_total'), 1)
  t.equal(varve.log.filter(({ msg }) => /^chain reset/.test(String(msg))).length, 1, 'the reset is logged once')
  t.match(await varve.get(modules), { body: '[3]', headers: { [status]: /stored/ } })
})

t.test('each miss is counted with its cause, which a purge or a chain reset is', async t => {
  const { state, url } = await startChangingUpstream(t)
  const token = 't0ken'
  const varve = await varveAt(t, url, { admin: { listen: '127.0.0.1:0', token } })
  const causes = async (): Promise<object> => {
    const series = (await scrape(varve.adminUrl)).get('varve_misses_total')?.series ?? []
    return Object.fromEntries(
      series.flatMap(({ labels, value }) =>
        labels['endpoint'] === 'account_modules' && value > 0 ? [[labels['cause'], value]] : []
      )
    )
  }
  const purge = async (body: object): Promise<void> => {
    const headers = { authorization: `Bearer ${token}` }
    const purged = await sendRequest(varve.adminUrl, '/purge', { method: 'POST', headers, body: JSON.stringify(body) })
    t.equal(purged.status, 200)
  }
  for (const target of [modules, modules, latest]) await varve.get(target)
  t.same(await causes(), { first: 1, moving: 1 }, 'a hit has none')
  await purge({ url: modules })
  await varve.get(modules)
  t.same(await causes(), { first: 1, moving: 1, purged: 1 })
  await purge({ all: true })
  await varve.get(modules)
  t.same(await causes(), { first: 1, moving: 1, purged: 2 }, 'in the space that replaces the purged one')
  state.stamps = { ...otherChain, 'x-aptos-ledger-version': '600', 'x-aptos-block-height': '60' }
  await varve.get(latest)
  await varve.get(modules)
  t.same(await causes(), { first: 1, moving: 2, purged: 2, reset: 1 })
  const { recent } = JSON.parse((await sendRequest(varve.adminUrl, '/status.json')).body)
  const recently = ['first', 'moving', 'purged', 'reset', 'evicted'].map(cause =>
    recent.misses[cause].reduce((sum: number, each: number) => sum + each, 0)
  )
  t.same(recently, [1, 2, 2, 1, 0], 'the status page shows the same')
})

t.test('a 410 of a gateway without a position adds nothing to the histogram of distances', async t => {
  const stub = await startStubUpstream(t, (_request, response) => {
    response.writeHead(410, { 'content-type': 'application/json' }).end('{"error_code":"version_pruned"}')
  }, (_request, response) => {
    response.destroy()
  })
  const varve = await varveAt(t, stub.url, { chainId: 4 })
  t.match(await varve.get(modules), { status: 410, body: '{"error_code":"version_pruned"}' })
  t.equal(await varve.metric('varve_pruned_requests_total{endpoint="account_modules",answer="upstream"}'), 1)
  t.equal(await varve.metric('varve_pruned_distance_versions_count{endpoint="account_modules"}'), undefined)
})

t.test('a process without a reached upstream is not ready, and serves as soon as it can', async t => {
  let isUnhealthy = true
  const stub = await startStubUpstream(t, (_request, response) => {
    respondOk(response, '[]')
  }, (request, response) => {
    if (isUnhealthy) response.destroy()
    else respondToIndex(request, response)
  })
  const varve = await varveAt(t, stub.url)
  t.match(await sendRequest(varve.adminUrl, '/readyz'), { status: 503, body: /no upstream has been reached yet/ })
  t.match(await varve.get(modules), { status: 503, headers: { 'retry-after': '1' }, body: /the chain is unknown/ })
  isUnhealthy = false
  t.match(await varve.get(modules), { status: 200 })
  t.match(await sendRequest(varve.adminUrl, '/readyz'), {
    status: 200,
    body: /^\{"ready":true,/
  })
})

t.test('HEAD is GET without the body, and stores the whole response', async t => {
  const stub = await startStubUpstream(t, (_request, response) => {
    respondOk(response, '[1,2]')
  })
  const varve = await varveAt(t, stub.url)
  t.match(await varve.get(modules, { method: 'HEAD' }), {
    status: 200,
    body: '',
    headers: { 'content-length': '5', [status]: /stored/ }
  })
  t.match(await varve.get(modules), { status: 200, body: '[1,2]', headers: { [status]: /hit/ } })
  t.equal(stub.requests[0]?.slice(0, 4), 'GET ')
})
