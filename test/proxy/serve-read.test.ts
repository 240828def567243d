import { type IncomingMessage, type ServerResponse } from 'node:http'
import { gunzipSync, gzipSync } from 'node:zlib'
import t from 'tap'
import { configSchema } from '../../src/config/schema.js'
import { sendRequest, tableItemLookup } from '../support/client.js'
import { respondToIndex, respondOk, startRawUpstream, stamps, startStubUpstream } from '../support/stub-upstream.js'
import { serveRead } from '../../src/proxy/serve-read.js'
import { outcomeNameOf } from '../../src/proxy/outcomes.js'
import { cacheStatusOf } from '../../src/proxy/outcomes.js'
import { ErrorResponse } from '../../src/api/error-response.js'
import { contextAt, readOfTarget } from '../support/proxy-context.js'
import { until } from '../support/until.js'
import { varveAt } from '../support/varve.js'

const modules = '/v1/accounts/0x1/modules?ledger_version=500'
const status = 'cache-status'
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
  for (const target of [modules, modules, '/v1/accounts/0x1/modules']) t.equal((await varve.get(target)).body, body)
  t.equal(stub.requests.length, 2)
})

t.test('a thousand equal misses are one upstream read, and all are served', async t => {
  let release: () => void = () => {}
  let arrived: () => void = () => {}
  const released = new Promise<void>(resolve => {
    release = resolve
  })
  const here = new Promise<void>(resolve => {
    arrived = resolve
  })
  const stub = await startStubUpstream(t, (_request, response) => {
    arrived()
    released.then(() => {
      respondOk(response, '[]')
    }, () => {})
  })
  const { context } = contextAt(t, stub.url)
  await context.resolveChain()
  const outcomes = Array.from({ length: 1000 }, async () => await serveRead(context, readOfTarget(modules)))
  await here
  release()
  const got = await Promise.all(outcomes)
  t.same(got.map(({ name }) => name), ['miss', ...Array(999).fill('collapsed')])
  t.same(
    new Set(got.map(cacheStatusOf)),
    new Set(['varve; fwd=uri-miss; fwd-status=200; stored', 'varve; fwd=uri-miss; collapsed'])
  )
  t.equal(stub.requests.length, 1)
})

t.test('a client that gives up cancels no other, even the first, and the response is stored', async t => {
  let release: () => void = () => {}
  let arrived: () => void = () => {}
  const released = new Promise<void>(resolve => {
    release = resolve
  })
  const here = new Promise<void>(resolve => {
    arrived = resolve
  })
  const stub = await startStubUpstream(t, (_request, response) => {
    arrived()
    released.then(() => {
      respondOk(response, '[]')
    }, () => {})
  })
  const varve = await varveAt(t, stub.url)
  const leaving = new AbortController()
  const leader = fetch(varve.url + modules, { signal: leaving.signal })
  await here
  const joiner = varve.get(modules)
  const hasConnections = async (count: number): Promise<void> => {
    await until(async () => await varve.metric('varve_connections') === count, `${count} connections`)
  }
  await hasConnections(2)
  leaving.abort()
  await t.rejects(leader)
  await hasConnections(1)
  release()
  t.match(await joiner, { status: 200, body: '[]' })
  t.match(await varve.get(modules), { headers: { [status]: 'varve; hit; detail=memory' } })
  t.equal(stub.requests.length, 1)
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
  const target = '/v1/tables/0xab/item?ledger_version=500'
  t.match(await varve.get(target, tableItemLookup('u64', '"7"')), { status: 200, headers: { [status]: /stored/ } })
  t.match(await varve.get(target, tableItemLookup('u64', '"007"')), { status: 200, headers: { [status]: /hit/ } })
  t.match(await varve.get(target, tableItemLookup('u64', '"8"')), {
    status: 404,
    body: /Table key\(\\"8\\"\)/,
    headers: { [status]: 'varve; fwd=uri-miss; fwd-status=404; stored' }
  })
  t.match(await varve.get(target, tableItemLookup('u64', '"08"')), {
    status: 404,
    body: /Table key\(\\"08\\"\)/,
    headers: { [status]: /stored/ }
  })
  t.match(await varve.get(target, tableItemLookup('u64', '"8"')), {
    status: 404,
    body: /Table key\(\\"8\\"\)/,
    headers: { [status]: /hit/, etag: /"/ }
  })
  t.equal(stub.requests.length, 3)
})

t.test('two variants of a missing key that arrive together each get their own text', async t => {
  let release: () => void = () => {}
  const released = new Promise<void>(resolve => {
    release = resolve
  })
  const stub = await startStubUpstream(t, (request, response) => {
    request.setEncoding('utf8').once('data', (text: string) => {
      const { key } = JSON.parse(text) as { key: string }
      released.then(() => {
        response.writeHead(404, { 'content-type': 'application/json', ...stamps() }).end(notFound(JSON.stringify(key)))
      }, () => {})
    })
  })
  const varve = await varveAt(t, stub.url)
  const both = ['"8"', '"08"', '"008"'].map(async key =>
    await varve.get('/v1/tables/0xab/item?ledger_version=500', tableItemLookup('u64', key))
  )
  while (stub.requests.length === 0) {
    await new Promise(resolve => {
      setImmediate(resolve)
    })
  }
  release()
  const bodies = (await Promise.all(both)).map(({ body }) =>
    /Table key\((".*")\)/.exec(JSON.parse(body).message as string)?.[1]
  )
  t.same(bodies, ['"8"', '"08"', '"008"'])
})

t.test('a response that is not proven history is forwarded and fetched each time, with the reason', async t => {
  const cases: [string, (response: ServerResponse) => void][] = [
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
    ['too_large', response => {
      respondOk(response, `["${'x'.repeat(1024 * 1024)}"]`)
    }]
  ]
  for (const [reason, script] of cases) {
    const stub = await startStubUpstream(t, (_request, response) => {
      script(response)
    })
    const varve = await varveAt(t, stub.url, { cache: { maxEntryMb: 1 }, pruned: { answerLocally: false } })
    const got = [await varve.get(modules), await varve.get(modules)]
    for (const { headers } of got) {
      t.match(headers[status], new RegExp(`^varve; fwd=uri-miss; fwd-status=\\d+; detail=${reason}$`))
    }
    t.match(got[0]?.headers, { 'cache-control': 'no-store' })
    t.equal(stub.requests.length, 2)
    t.equal(await varve.metric(`varve_not_stored_total{endpoint="account_modules",reason="${reason}"}`), 2)
  }
})

t.test('a response larger than the whole memory tier is not reported as stored', async t => {
  const stub = await startStubUpstream(t, (_request, response) => {
    respondOk(response, `["${'x'.repeat(1_500_000)}"]`)
  })
  const varve = await varveAt(t, stub.url, { cache: { memory: { maxMb: 1 } } })
  for (let round = 0; round < 2; round++) {
    t.match(await varve.get(modules), {
      status: 200,
      headers: { [status]: 'varve; fwd=uri-miss; fwd-status=200; detail=too_large' }
    })
  }
  t.equal(await varve.metric('varve_not_stored_total{endpoint="account_modules",reason="too_large"}'), 2)
  t.equal(await varve.metric('varve_cache_writes_total{tier="memory"}'), 0)
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
  t.match(await varve.get('/v1/accounts/0x1/modules'), {
    status: 503,
    body: 'busy',
    headers: { [status]: 'varve; fwd=bypass', 'x-node-ledger-version': '1000' }
  }, 'latest reads too, under the known position, since this response has none')
})

t.test('a 200 that cannot be true becomes a 503', async t => {
  const cases: [string, (response: ServerResponse) => void][] = [
    ['no_position', response => {
      response.writeHead(200, { 'content-type': 'application/json' }).end(
        '{"message":"internal error","error_code":"internal_error","vm_error_code":null}'
      )
    }],
    ['wrong_chain', response => {
      respondOk(response, '[]', { 'x-aptos-chain-id': '9' })
    }],
    ['wrong_type', response => {
      respondOk(response, '<html>', { 'content-type': 'text/html' })
    }],
    ['wrong_coding', response => {
      respondOk(response, 'zzz', { 'content-encoding': 'gzip' })
    }]
  ]
  for (const [reason, script] of cases) {
    const stub = await startStubUpstream(t, (_request, response) => {
      script(response)
    })
    const varve = await varveAt(t, stub.url)
    t.match(await varve.get(modules), {
      status: 503,
      headers: { [status]: 'varve; detail=unavailable', 'retry-after': '1', 'x-node-chain-id': '4' },
      body: /"error_code":"internal_error","vm_error_code":null/
    }, reason)
    t.equal(await varve.metric(`varve_not_stored_total{endpoint="account_modules",reason="${reason}"}`), 1)
  }
})

t.test('a response delimited by connection close may be cut short: 503, and not stored', async t => {
  const lines = Object.entries(stamps()).map(line => line.join(': ')).join('\r\n')
  const raw = await startRawUpstream(t, socket => {
    socket.end(`HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n${lines}\r\n\r\n[{"bytecode":"0x12`)
  })
  const varve = await varveAt(t, raw.url, { chainId: 4 })
  t.match(await varve.get(modules), { status: 503 })
  t.equal(await varve.metric('varve_not_stored_total{endpoint="account_modules",reason="incomplete"}'), 1)
})

t.test('a 204, 206, 304 or redirect of an upstream is never forwarded', async t => {
  for (const code of [204, 206, 302, 304]) {
    const stub = await startStubUpstream(t, (_request, response) => {
      response.writeHead(code, { ...stamps(), location: 'http://127.0.0.1:1/' }).end()
    })
    t.match(
      await (await varveAt(t, stub.url)).get(modules),
      { status: 503, headers: { location: undefined } },
      String(code)
    )
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
  const pending: Array<(code: number) => void> = []
  let arrived: () => void = () => {}
  const stub = await startStubUpstream(t, (_request, response, nth) => {
    pending.push(code => {
      if (code === 200) respondOk(response, `[${nth}]`)
      else response.writeHead(code, stamps()).end('{}')
    })
    arrived()
  })
  const { context } = contextAt(t, stub.url)
  await context.resolveChain()
  const statusOf = async (target: string): Promise<number> => {
    const outcome = await serveRead(context, readOfTarget(target))
    return outcome.name === 'hit' ? 200 : outcome.fetched.response.status
  }
  for (
    const [target, failing] of [[modules, 500], ['/v1/accounts/0x1/modules', 500], [`${modules}&limit=1`, 429], [
      '/v1/accounts/0x1/modules?limit=1',
      429
    ]] as const
  ) {
    const first = new Promise<void>(resolve => {
      arrived = resolve
    })
    const leaders = [statusOf(target)]
    await first
    // A latest read joins the waiting fetch, so the others coalesce with the second one here.
    if (!target.includes('ledger_version')) {
      leaders.push(statusOf(target))
      const second = new Promise<void>(resolve => {
        arrived = resolve
      })
      const others = Array.from({ length: 10 }, async () => await statusOf(target))
      pending.shift()?.(200)
      await second
      const third = new Promise<void>(resolve => {
        arrived = resolve
      })
      pending.shift()?.(failing)
      await third
      pending.shift()?.(200)
      t.same(await Promise.all([...leaders, ...others]), [200, failing, ...Array(10).fill(200)], 'latest')
      continue
    }
    const others = Array.from({ length: 10 }, async () => await statusOf(target))
    const second = new Promise<void>(resolve => {
      arrived = resolve
    })
    pending.shift()?.(failing)
    await second
    pending.shift()?.(200)
    t.same(await Promise.all([...leaders, ...others]), [failing, ...Array(10).fill(200)], 'history')
  }
})

t.test('a truncated response becomes a 503', async t => {
  const stub = await startStubUpstream(t, (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': '100', ...stamps() }).write('[')
    setImmediate(() => {
      response.destroy()
    })
  })
  const varve = await varveAt(t, stub.url)
  t.match(await varve.get(modules), { status: 503, headers: { 'retry-after': '1' } })
  t.equal(await varve.metric('varve_not_stored_total{endpoint="account_modules",reason="incomplete"}'), 1)
})

t.test('a denial of a version below the served head is retried once, and never forwarded', async t => {
  const denial = JSON.stringify({
    message: 'Ledger version not found by Ledger version(500)',
    error_code: 'version_not_found',
    vm_error_code: null
  })
  const lagging = (response: ServerResponse): void => {
    response.writeHead(404, {
      'content-type': 'application/json',
      ...stamps({
        'x-aptos-ledger-version': '400',
        'x-aptos-ledger-timestampusec': '400000',
        'x-aptos-block-height': '40'
      })
    }).end(denial)
  }
  const balanced = await startStubUpstream(t, (_request, response, nth) => {
    if (nth === 1) lagging(response)
    else respondOk(response, '[]')
  })
  t.match(await (await varveAt(t, balanced.url)).get(modules), {
    status: 200,
    headers: { 'x-node-ledger-version': '1000' }
  })
  t.equal(balanced.requests.length, 2)
  const stuck = await startStubUpstream(t, (_request, response) => {
    lagging(response)
  })
  t.match(await (await varveAt(t, stuck.url)).get(modules), { status: 503 })
  t.equal(stuck.requests.length, 2)
  const both = [
    await startStubUpstream(t, (_request, response) => {
      lagging(response)
    }),
    await startStubUpstream(t, (_request, response) => {
      lagging(response)
    })
  ]
  const { upstreams } = configSchema.parse({ upstreams: both.map(({ url }) => ({ url })) })
  t.match(await (await varveAt(t, '', { upstreams })).get(modules), { status: 503 })
  t.same(both.map(({ requests }) => requests.length), [1, 1], 'each upstream is tried once')
  const future = await startStubUpstream(t, (_request, response) => {
    response.writeHead(404, { 'content-type': 'application/json', ...stamps() }).end(denial)
  })
  t.match(await (await varveAt(t, future.url)).get('/v1/accounts/0x1/modules?ledger_version=5000'), {
    status: 404,
    body: denial
  })
  t.equal(future.requests.length, 1, 'a future version may be denied')
})

t.test('hits carry the current position, latest reads their own stamp', async t => {
  let version = 1000
  const now = (): Record<string, string> =>
    stamps({
      'x-aptos-ledger-version': String(version),
      'x-aptos-ledger-timestampusec': String(version * 1000),
      'x-aptos-block-height': String(version / 10)
    })
  const stub = await startStubUpstream(t, (_request, response) => {
    respondOk(response, '[]', { ...now(), 'x-aptos-cursor': 'ab', 'x-aptos-gas-used': '3' })
  }, (_request, response) => {
    response.writeHead(200, now()).end('{}')
  })
  const varve = await varveAt(t, stub.url)
  t.match((await varve.get(modules)).headers, {
    'x-node-ledger-version': '1000',
    'x-aptos-ledger-version': '1000',
    'x-node-epoch': '2'
  })
  version = 2000
  const latest = await varve.get('/v1/accounts/0x1/modules')
  t.match(latest.headers, {
    [status]: 'varve; fwd=bypass',
    'cache-control': 'no-store',
    'x-node-ledger-version': '2000',
    'x-node-cursor': 'ab',
    'x-aptos-cursor': 'ab',
    'x-node-gas-used': '3'
  })
  t.match((await varve.get(modules)).headers, {
    [status]: /hit/,
    'x-node-ledger-version': '2000',
    'x-node-ledger-timestampusec': '2000000',
    'x-node-block-height': '200',
    'x-node-ledger-oldest-version': '10',
    'x-node-cursor': 'ab'
  })
  t.ok(
    (await varve.get(modules)).rawNames.includes('X-NODE-LEDGER-OLDEST-VERSION'),
    'the specification\'s names in its own case'
  )
  t.match(
    await varve.get('/v1/accounts/0x1/modules?ledger_version=2000'),
    { headers: { [status]: /hit/ } },
    'the latest response is stored at its version'
  )
  t.equal(stub.requests.length, 2)
})

t.test('only the configured header families are sent', async t => {
  const stub = await startStubUpstream(t, (_request, response) => {
    respondOk(response, '[]', { 'x-aptos-cursor': 'ab' })
  })
  const own = await (await varveAt(t, stub.url, { headers: { emit: ['node'] } })).get(modules)
  t.same(
    own.rawNames.filter(name => /^x-(?!request-id)/i.test(name)).map(name => name.slice(0, 7)),
    Array(8).fill('X-NODE-')
  )
  const theirs = await (await varveAt(t, stub.url, { headers: { emit: ['upstream'] } })).get(modules)
  t.same(
    theirs.rawNames.filter(name => /^x-(?!request-id)/i.test(name)).map(name => name.slice(0, 8)),
    Array(8).fill('x-aptos-')
  )
  const none = await (await varveAt(t, stub.url, { headers: { emit: [] } })).get(modules)
  t.same(none.rawNames.filter(name => /^x-(?!request-id)/i.test(name)), [])
})

t.test('a stale latest read is fetched again, and counted if it stays stale', async t => {
  const older = {
    'x-aptos-ledger-version': '900',
    'x-aptos-ledger-timestampusec': '900000',
    'x-aptos-block-height': '90'
  }
  const balanced = await startStubUpstream(t, (_request, response, nth) => {
    respondOk(response, `[${nth}]`, nth === 1 ? older : {})
  })
  const varve = await varveAt(t, balanced.url)
  t.match(await varve.get('/v1/accounts/0x1/modules'), { body: '[2]', headers: { 'x-node-ledger-version': '1000' } })
  t.equal(await varve.metric('varve_stale_latest_total'), 0)
  const stuck = await startStubUpstream(t, (_request, response, nth) => {
    respondOk(response, `[${nth}]`, {
      ...older,
      'x-aptos-ledger-version': String(900 - nth),
      'x-aptos-ledger-timestampusec': String(900_000 - nth)
    })
  })
  const laggingVarve = await varveAt(t, stuck.url)
  t.match(
    await laggingVarve.get('/v1/accounts/0x1/modules'),
    { body: '[1]', headers: { 'x-node-ledger-version': '899' } },
    'the furthest response, with its own stamp'
  )
  t.equal(stuck.requests.length, 2)
  t.equal(await laggingVarve.metric('varve_stale_latest_total'), 1)
})

t.test('an error on the retry of a stale latest read leaves the first response, which is counted', async t => {
  const older = {
    'x-aptos-ledger-version': '900',
    'x-aptos-ledger-timestampusec': '900000',
    'x-aptos-block-height': '90'
  }
  const stub = await startStubUpstream(t, (_request, response, nth) => {
    if (nth === 1) respondOk(response, '[1]', older)
    else response.writeHead(429, { 'content-type': 'text/plain' }).end('slow down')
  })
  const varve = await varveAt(t, stub.url)
  t.match(await varve.get('/v1/accounts/0x1/modules'), {
    status: 200,
    body: '[1]',
    headers: { 'x-node-ledger-version': '900' }
  })
  t.equal(await varve.metric('varve_stale_latest_total'), 1)
})

t.test('a latest read that detects a reset is not stale: the old served head no longer counts', async t => {
  const stub = await startStubUpstream(t, (_request, response) => {
    respondOk(response, '[]', {
      'x-aptos-ledger-version': '100',
      'x-aptos-ledger-timestampusec': '9000000',
      'x-aptos-block-height': '10'
    })
  })
  const varve = await varveAt(t, stub.url)
  t.match(await varve.get('/v1/accounts/0x1/modules'), { status: 200, headers: { 'x-node-ledger-version': '100' } })
  t.equal(
    stub.requests.filter(line => line.includes('modules')).length,
    2,
    'fetched again, since the chain of the first response is unclear'
  )
  t.equal(await varve.metric('varve_stale_latest_total'), 0)
})

t.test('a block carries the current position, and one below the served head is never denied', async t => {
  const older = stamps({
    'x-aptos-ledger-version': '900',
    'x-aptos-ledger-timestampusec': '900000',
    'x-aptos-block-height': '90'
  })
  const stub = await startStubUpstream(t, (_request, response, nth) => {
    if (nth === 1) respondOk(response, '{}', older)
    else {
      response.writeHead(404, { 'content-type': 'application/json', ...older }).end(
        JSON.stringify({ error_code: nth < 4 ? 'block_not_found' : 'version_not_found' })
      )
    }
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

t.test('a burst of latest reads is two upstream reads: one in flight, one coalesced behind it', async t => {
  const pending: Array<() => void> = []
  let arrived: () => void = () => {}
  const stub = await startStubUpstream(t, (_request, response, nth) => {
    pending.push(() => {
      respondOk(response, `[${nth}]`)
    })
    arrived()
  })
  const { context } = contextAt(t, stub.url)
  const latest = readOfTarget('/v1/accounts/0x1/modules')
  const bodyOf = async (): Promise<string> => {
    const outcome = await serveRead(context, latest)
    return outcome.name === 'forwarded' ? outcome.fetched.response.body.toString() : outcome.name
  }
  await context.resolveChain()
  const first = new Promise<void>(resolve => {
    arrived = resolve
  })
  const early = bodyOf()
  await first
  const second = new Promise<void>(resolve => {
    arrived = resolve
  })
  const late = Promise.all(Array.from({ length: 50 }, bodyOf))
  pending.shift()?.()
  t.equal(await early, '[1]')
  await Promise.race([second, late])
  pending.shift()?.()
  t.same(new Set(await late), new Set(['[2]']))
  t.equal(stub.requests.length, 2)
})

t.test('with promote off a latest read is not stored at its version', async t => {
  const stub = await startStubUpstream(t, (_request, response) => {
    respondOk(response, '[]')
  })
  const varve = await varveAt(t, stub.url, { latest: { promote: false } })
  await varve.get('/v1/accounts/0x1/modules')
  t.match(await varve.get('/v1/accounts/0x1/modules?ledger_version=1000'), { headers: { [status]: /miss/ } })
})

t.test('an old rendering is fetched again, and served if no upstream responds within 500 ms', async t => {
  let release = 'aaaa'
  let respond = (response: ServerResponse, nth: number): void => {
    respondOk(response, `[${nth}]`)
  }
  const index = (_request: IncomingMessage, response: ServerResponse): void => {
    response.writeHead(200, stamps()).end(`{"git_hash":"${release}"}`)
  }
  const stub = await startStubUpstream(t, (_request, response, nth) => {
    respond(response, nth)
  }, index)
  const clock = { ms: 0 }
  const { context } = contextAt(t, stub.url, clock)
  const read = readOfTarget(modules)
  const served = async (): Promise<[string, string]> => {
    const outcome = await serveRead(context, read)
    return [outcomeNameOf(outcome), (outcome.name === 'hit' ? outcome.entry : outcome.fetched.response).body.toString()]
  }
  t.same(await served(), ['miss', '[1]'])
  release = 'bbbb'
  await context.resolveChain()
  respond = () => {}
  const started = performance.now()
  t.same(
    await Promise.all(Array.from({ length: 5 }, served)),
    Array(5).fill(['hit_memory', '[1]']),
    'a silent upstream'
  )
  const tookMs = performance.now() - started
  t.ok(tookMs > 450 && tookMs < 2000, `${Math.round(tookMs)} ms for all five`)
  t.same(await served(), ['hit_memory', '[1]'])
  t.equal(stub.requests.length, 2, 'a failed refresh is not retried at every hit')
  clock.ms = 10_000
  respond = response => {
    response.writeHead(500, stamps()).end()
  }
  t.same(await served(), ['hit_memory', '[1]'], 'a failing upstream')
})

t.test('a new rendering replaces the old one for all concurrent reads', async t => {
  let release = 'aaaa'
  const stub = await startStubUpstream(t, (_request, response, nth) => {
    respondOk(response, `[${nth}]`)
  }, (_request, response) => {
    response.writeHead(200, stamps()).end(`{"git_hash":"${release}"}`)
  })
  const { context } = contextAt(t, stub.url)
  const served = async (): Promise<[string, string]> => {
    const outcome = await serveRead(context, readOfTarget(modules))
    return [outcomeNameOf(outcome), (outcome.name === 'hit' ? outcome.entry : outcome.fetched.response).body.toString()]
  }
  await context.resolveChain()
  t.same(await served(), ['miss', '[1]'])
  release = 'bbbb'
  await context.resolveChain()
  t.same(await Promise.all([served(), served()]), [['miss', '[2]'], ['collapsed', '[2]']])
  t.same(await served(), ['hit_memory', '[2]'])
})

t.test('an old rendering of a pruned version is served without an upstream request', async t => {
  let release = 'aaaa'
  let oldest = '10'
  const stub = await startStubUpstream(t, (_request, response) => {
    respondOk(response, '[]')
  }, (_request, response) => {
    response.writeHead(200, stamps({ 'x-aptos-ledger-oldest-version': oldest })).end(`{"git_hash":"${release}"}`)
  })
  const { context } = contextAt(t, stub.url)
  await context.resolveChain()
  await serveRead(context, readOfTarget(modules))
  release = 'bbbb'
  oldest = '600'
  await context.resolveChain()
  t.match(await serveRead(context, readOfTarget(modules)), { name: 'hit', tier: 'memory', kind: 'pruned' })
  t.equal(stub.requests.length, 1)
})

t.test('a version pruned during the refresh of its rendering is served as pruned, or 410', async t => {
  for (
    const settings of [
      { servePruned: true },
      { servePruned: false },
      { servePruned: false, answerLocally: false }
    ]
  ) {
    let release = 'aaaa'
    let oldest = '10'
    let receive = (): void => {}
    const stub = await startStubUpstream(t, (_request, response, nth) => {
      if (nth === 1) respondOk(response, '[]')
      else if (nth === 2) receive()
      else response.writeHead(410, stamps({ 'x-aptos-ledger-oldest-version': oldest })).end()
    }, (_request, response) => {
      response.writeHead(200, stamps({ 'x-aptos-ledger-oldest-version': oldest })).end(`{"git_hash":"${release}"}`)
    })
    const { context: parts } = contextAt(t, stub.url)
    const context = { ...parts, settings: { ...parts.settings, ...settings } }
    await context.resolveChain()
    await serveRead(context, readOfTarget(modules))
    release = 'bbbb'
    await context.resolveChain()
    const received = new Promise<void>(resolve => {
      receive = resolve
    })
    const reading = serveRead(context, readOfTarget(modules))
    reading.catch(() => {})
    await received
    oldest = '600'
    await context.resolveChain()
    if (settings.servePruned) {
      t.match(await reading, { name: 'hit', kind: 'pruned', position: { oldest: { version: 600n } } })
    } else if (settings.answerLocally === false) t.match(await reading, { fetched: { response: { status: 410 } } })
    else await t.rejects(reading, { code: 'version_pruned' })
  }
})

t.test('a reset detected while a rendering is refreshed invalidates the old chain\'s entry', async t => {
  let index: Record<string, string> = {}
  let release = 'aaaa'
  let respond = (response: ServerResponse): void => {
    respondOk(response, '["old chain"]')
  }
  const stub = await startStubUpstream(t, (_request, response) => {
    respond(response)
  }, (_request, response) => {
    response.writeHead(200, stamps(index)).end(`{"git_hash":"${release}"}`)
  })
  const { context } = contextAt(t, stub.url)
  await context.resolveChain()
  await serveRead(context, readOfTarget(modules))
  release = 'bbbb'
  await context.resolveChain()
  let received: () => void = () => {}
  const arrived = new Promise<void>(resolve => {
    received = resolve
  })
  respond = () => {
    received()
  }
  const reading = serveRead(context, readOfTarget(modules))
  await arrived
  index = { 'x-aptos-ledger-version': '100', 'x-aptos-ledger-timestampusec': '9000000', 'x-aptos-block-height': '10' }
  respond = response => {
    response.writeHead(404, { 'content-type': 'application/json', ...stamps(index) }).end(
      '{"error_code":"version_not_found"}'
    )
  }
  await context.resolveChain()
  t.match(await reading, { name: /miss|collapsed/, position: { head: { version: 100n } } })
})

t.test('a read that waited for admission sees what was stored meanwhile, and the chain of then', async t => {
  let index: Record<string, string> = {}
  const stub = await startStubUpstream(t, (_request, response, nth) => {
    respondOk(response, `[${nth}]`, index)
  }, (_request, response) => {
    response.writeHead(200, stamps(index)).end('{"git_hash":"aaaa"}')
  })
  const { context } = contextAt(t, stub.url)
  await context.resolveChain()
  const read = readOfTarget(modules)
  const other = async (): Promise<void> => {
    await serveRead(context, read)
  }
  t.match(await serveRead(context, read, { id: undefined, admit: other }), { name: 'hit', tier: 'memory' })
  t.equal(stub.requests.length, 1)
  const reset = async (): Promise<void> => {
    index = { 'x-aptos-ledger-version': '600', 'x-aptos-ledger-timestampusec': '9000000', 'x-aptos-block-height': '60' }
    await context.resolveChain()
  }
  const before = context.tracker.chain
  const at501 = readOfTarget('/v1/accounts/0x1/modules?ledger_version=501')
  t.match(await serveRead(context, at501, { id: undefined, admit: reset }), { name: 'miss' })
  t.not(context.tracker.chain, before)
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
  await t.rejects(
    serveRead({ ...context, settings: { ...context.settings, isObserving: true } }, readOfTarget(modules), limited),
    rejection,
    'observe mode limits every read'
  )
  t.equal(stub.requests.length, 1)
  await t.rejects(
    serveRead(context, { ...readOfTarget('/v1/accounts/0x2/modules'), minVersion: 9999n }, limited),
    rejection,
    'before it waits'
  )
  t.match(await serveRead(context, readOfTarget(modules), limited), { name: 'hit', tier: 'memory' })
})

t.test('after a chain reset nothing of the old chain is served', async t => {
  let change: Record<string, string> = {}
  let reads = 0
  const stub = await startStubUpstream(t, (request, response) => {
    respondOk(response, request.url?.includes('modules') === true ? `[${++reads}]` : '{}', change)
  })
  const varve = await varveAt(t, stub.url)
  t.equal((await varve.get(modules)).body, '[1]')
  change = { 'x-aptos-ledger-version': '600', 'x-aptos-ledger-timestampusec': '9000000', 'x-aptos-block-height': '60' }
  t.match(await varve.get('/v1/accounts/0x2/modules?ledger_version=500'), {
    body: '[3]',
    headers: { [status]: /detail=wrong_chain/, 'x-node-ledger-version': '600' }
  })
  t.equal(await varve.metric('varve_chain_resets_total'), 1)
  t.equal(varve.log.filter(({ msg }) => /^chain reset/.test(String(msg))).length, 1, 'the reset is logged once')
  t.match(await varve.get(modules), { body: '[4]', headers: { [status]: /stored/ } })
})

t.test('history is served beyond the upstream\'s window or without it, marked and counted', async t => {
  let oldest = '10'
  let gone = false
  const stub = await startStubUpstream(t, (_request, response) => {
    if (gone) response.destroy()
    else {
      respondOk(response, '[]', {
        'x-aptos-ledger-oldest-version': oldest,
        'x-aptos-ledger-version': oldest === '10' ? '1000' : '1001',
        'x-aptos-ledger-timestampusec': oldest === '10' ? '1000000' : '1000001'
      })
    }
  })
  const varve = await varveAt(t, stub.url)
  await varve.get(modules)
  oldest = '600'
  await varve.get('/v1/accounts/0x1/modules')
  gone = true
  t.match(await varve.get(modules), {
    status: 200,
    headers: { [status]: 'varve; hit; detail=pruned', 'x-node-ledger-oldest-version': '600' }
  })
  t.match(await varve.get('/v1/accounts/0x1/modules'), { status: 503 })
  t.equal(await varve.metric('varve_pruned_requests_total{endpoint="account_modules",answer="cache"}'), 1)
  t.equal(await varve.metric('varve_pruned_distance_versions_sum{endpoint="account_modules"}'), 100)
})

t.test('a 410 of a gateway without a position is counted without a distance', async t => {
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

t.test('a client with a matching tag gets a 304 with the present position', async t => {
  const stub = await startStubUpstream(t, (_request, response) => {
    respondOk(response, '[]', { 'x-aptos-cursor': 'ab' })
  })
  const varve = await varveAt(t, stub.url)
  const etag = (await varve.get(modules)).headers.etag ?? ''
  for (const tag of [etag, `W/${etag}`, '*', `"other", ${etag}`]) {
    const got = await varve.get(modules, { headers: { 'if-none-match': tag } })
    t.match(got, {
      status: 304,
      body: '',
      headers: {
        etag,
        'x-node-ledger-version': '1000',
        'x-node-cursor': 'ab',
        [status]: /hit/,
        'content-type': undefined
      }
    }, tag)
  }
  for (const tag of ['"other"', '"unterminated', etag.slice(1)]) {
    t.match(await varve.get(modules, { headers: { 'if-none-match': tag } }), { status: 200, body: '[]' }, tag)
  }
  t.match(await varve.get('/v1/accounts/0x2/modules?ledger_version=50', { headers: { 'if-none-match': '"abc"' } }), {
    status: 200
  }, 'a conditional is not forwarded')
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

t.test('JSON and BCS are never mixed', async t => {
  const stub = await startStubUpstream(t, (request, response) => {
    respondOk(response, request.headers.accept ?? '', { 'content-type': request.headers.accept ?? '' })
  })
  const varve = await varveAt(t, stub.url)
  for (let round = 0; round < 2; round++) {
    t.match(await varve.get(modules), { body: 'application/json' })
    t.match(await varve.get(modules, { headers: { accept: 'application/x-bcs', connection: 'accept' } }), {
      body: 'application/x-bcs',
      headers: { 'content-type': 'application/x-bcs' }
    })
  }
  t.equal(stub.requests.length, 2)
})

t.test('Cache-Control is what the operator chose', async t => {
  const stub = await startStubUpstream(t, (request, response) => {
    request.resume().on('end', () => {
      respondOk(response, '[]')
    })
  })
  const cacheControlsOf = async (cacheControl: 'immutable' | 'off'): Promise<Array<string | undefined>> => {
    const varve = await varveAt(t, stub.url, { downstream: { cacheControl } })
    const responses = [
      await varve.get(modules),
      await varve.get('/v1/tables/0xab/item?ledger_version=500', tableItemLookup('u64', '"7"')),
      await varve.get('/v1/accounts/0x1/modules')
    ]
    return responses.map(({ headers }) => headers['cache-control'])
  }
  t.same(await cacheControlsOf('immutable'), [
    'public, max-age=86400',
    'public, max-age=31536000, immutable',
    'no-store'
  ])
  t.same(await cacheControlsOf('off'), [undefined, undefined, 'no-store'])
})
