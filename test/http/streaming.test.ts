import { setTimeout as pause } from 'node:timers/promises'
import { once } from 'node:events'
import { Agent, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { buffer as read } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { Deferred } from '../../src/peers/deferred.js'
import { serveRead } from '../../src/proxy/serve-read.js'
import { type Outcome } from '../../src/proxy/outcomes.js'
import { tableItemLookup } from '../support/client.js'
import { accelerateClientTimeouts } from '../support/accelerated-timeouts.js'
import { contextAt, readOfTarget } from '../support/proxy-context.js'
import { sendRaw, statusesIn } from '../support/raw.js'
import { type HeldUpstream, respondOk, stamps, startHeldUpstream, startStubUpstream } from '../support/stub-upstream.js'
import { varveAt } from '../support/varve.js'

const mega = 1024 * 1024
const modules = '/v1/accounts/0x1/modules?ledger_version=500'
const latest = '/v1/accounts/0x1/modules'
const other = '/v1/spec.json'
const status = 'cache-status'
// Prevents upstream timeouts in these tests.
const small = { cache: { maxEntryMb: 1 }, upstream: { timeoutMs: 60_000 } }

// Makes each byte depend on its place, so that lost, repeated or moved bytes show.
const pattern = Buffer.from(Uint32Array.from({ length: mega }, (_, at) => Math.imul(at, 2654435761)).buffer)
const bodyOf = (length: number): Buffer => pattern.subarray(0, length)

/** Writes the header of a response, with a Content-Length or chunked. */
function begin (response: ServerResponse, length: number | undefined, code = 200): ServerResponse {
  return response.writeHead(code, {
    'content-type': 'application/json; charset=utf-8',
    ...stamps(),
    ...(length !== undefined && { 'content-length': String(length) })
  })
}

/** Starts an upstream that holds back the last ten bytes of each response. */
async function startUnfinishedUpstream (t: Test, isDeclared: boolean): Promise<HeldUpstream> {
  return await startHeldUpstream(t, response => {
    begin(response, isDeclared ? 2 * mega : undefined).write(bodyOf(2 * mega - 10), () => {})
  })
}

const finish = (response: ServerResponse | undefined): void => {
  response?.end(bodyOf(2 * mega).subarray(2 * mega - 10))
}

/** Sends a request and returns the response once its header has arrived, its body unread. */
async function open (url: string, target: string, method = 'GET'): Promise<IncomingMessage> {
  const { hostname, port } = new URL(url)
  const sent = request({ hostname, port, path: target, method, agent: new Agent() }).end()
  const [response] = await once(sent, 'response') as [IncomingMessage]
  sent.on('error', () => {})
  return response.on('error', () => {})
}

async function gone (response: ServerResponse): Promise<boolean> {
  if (!response.closed) await once(response, 'close')
  return response.closed && !response.writableFinished
}

async function bytesOf (outcome: Outcome): Promise<Buffer> {
  if (!('fetched' in outcome)) return outcome.entry.body
  const { body, rest } = outcome.fetched.response
  return Buffer.concat([body, rest === undefined ? Buffer.alloc(0) : await read(rest)])
}

t.test('a response over cache.maxEntryMb arrives whole, is not stored, and names the reason', async t => {
  const body = bodyOf(mega + 65_537)
  for (const isDeclared of [true, false]) {
    const stub = await startStubUpstream(t, (request, response) => {
      request.resume().once('end', () => begin(response, isDeclared ? body.length : undefined).end(body))
    })
    const varve = await varveAt(t, stub.url, small)
    const tooLarge = 'varve; fwd=uri-miss; fwd-status=200; detail=too_large'
    const cases: [string, Parameters<typeof varve.get>[1], string][] = [
      [modules, {}, tooLarge],
      ['/v1/blocks/by_version/500?with_transactions=true', {}, tooLarge],
      ['/v1/accounts/0x1/events/0x1::a::B/c?start=0&limit=2', {}, tooLarge],
      ['/v1/tables/0xab/item?ledger_version=500', tableItemLookup('u64', '"1"'), tooLarge],
      [latest, {}, 'varve; fwd=bypass'],
      ['/v1/estimate_gas_price', {}, 'varve; fwd=bypass']
    ]
    for (const [target, options, expectedStatus] of cases) {
      for (let round = 0; round < 2; round++) {
        const got = await varve.get(target, options)
        t.ok(got.bytes.equals(body), target)
        t.match({ ...got.headers, code: got.status }, {
          code: 200,
          [status]: expectedStatus,
          etag: undefined,
          'cache-control': 'no-store',
          'x-node-ledger-version': '1000',
          'x-aptos-ledger-version': '1000',
          'content-length': isDeclared ? String(body.length) : undefined
        })
      }
    }
    t.equal(stub.requests.length, 2 * cases.length)
    t.equal(
      await varve.metric('varve_not_stored_total{endpoint="account_modules",reason="too_large"}'),
      4,
      'also if it would be stored under the version it was read at'
    )
    for (const endpoint of ['block_by_version', 'account_events', 'table_item']) {
      t.equal(await varve.metric(`varve_not_stored_total{endpoint="${endpoint}",reason="too_large"}`), 2)
    }
    t.equal(await varve.metric('varve_cache_entries{tier="memory"}'), 0)
    t.equal(
      await varve.metric('varve_upstream_requests_total{upstream="node",endpoint="account_modules",status="200"}'),
      4
    )
  }
})

t.test('a response of exactly cache.maxEntryMb is stored, and one byte more is not', async t => {
  for (const isDeclared of [true, false]) {
    for (const [length, expectedStatus] of [[mega, /hit/], [mega + 1, /too_large/]] as const) {
      const stub = await startStubUpstream(t, (_request, response) => {
        begin(response, isDeclared ? length : undefined).end(bodyOf(length))
      })
      const varve = await varveAt(t, stub.url, small)
      for (let round = 0; round < 2; round++) t.ok((await varve.get(modules)).bytes.equals(bodyOf(length)))
      t.match((await varve.get(modules)).headers[status], expectedStatus)
    }
  }
})

t.test('the first bytes of a streamed response reach the client before the upstream sends the last', async t => {
  for (const isDeclared of [true, false]) {
    const stub = await startUnfinishedUpstream(t, isDeclared)
    const begun = stub.next
    const varve = await varveAt(t, stub.url, small)
    for (const target of [modules, latest, other]) {
      const response = await open(varve.url, target)
      const [first] = await once(response, 'data') as [Buffer]
      t.ok(first.equals(bodyOf(first.length)), target)
      finish(await begun())
      t.ok(Buffer.concat([first, await read(response)]).equals(bodyOf(2 * mega)))
    }
  }
})

t.test('a client that does not read slows the upstream down instead of filling memory', async t => {
  const chunk = Buffer.alloc(mega, 'x')
  const total = 64
  for (const target of [modules, other]) {
    let poured = 0
    const stub = await startStubUpstream(t, (_request, response) => {
      begin(response, undefined)
      const pour = (): void => {
        while (poured < total) {
          poured++
          if (!response.write(chunk)) {
            response.once('drain', pour)
            return
          }
        }
        response.end()
      }
      pour()
    })
    const varve = await varveAt(t, stub.url, small)
    const response = await open(varve.url, target)
    // Waits until no more bytes leave the upstream for a while.
    let seen
    do {
      seen = poured
      await pause(100)
    } while (poured > seen)
    t.ok(poured < total, `${poured} of ${total} MB have left the upstream`)
    t.match((await varve.get('/v1')).status, 200, 'other clients go on')
    let size = 0
    for await (const part of response) size += (part as Buffer).length
    t.equal(size, total * mega)
    t.equal(poured, total)
  }
})

t.test('a client that leaves a streamed response cancels only its own fetch', async t => {
  for (const target of [modules, latest]) {
    const stub = await startUnfinishedUpstream(t, false)
    const begun = stub.next
    const varve = await varveAt(t, stub.url, small)
    const both = [open(varve.url, target), open(varve.url, target)]
    const reads = [await begun(), await begun()]
    const [leaving, staying] = await Promise.all(both)
    leaving?.destroy()
    // Finds the fetch of the client that left: the cancelled one.
    const given = await Promise.race(reads.map(async (response, at) => await gone(response) ? at : -1))
    finish(reads[1 - given])
    t.ok(staying !== undefined && (await read(staying)).equals(bodyOf(2 * mega)), target)
    t.equal(stub.requests.length, 2)
  }
})

t.test('HEAD of a streamed response has its header, and its body is discarded', async t => {
  for (const isDeclared of [true, false]) {
    const stub = await startUnfinishedUpstream(t, isDeclared)
    const begun = stub.next
    const varve = await varveAt(t, stub.url, { ...small, upstream: { ...small.upstream, maxConcurrent: 1 } })
    for (const target of [modules, latest]) {
      // Repeats more often than the upstream has slots.
      for (let round = 0; round < 9; round++) {
        t.match(await varve.get(target, { method: 'HEAD' }), {
          status: 200,
          body: '',
          headers: { 'content-length': isDeclared ? String(2 * mega) : undefined }
        })
        t.ok(await gone(await begun()), target)
      }
    }
  }
})

t.test('a truncated upstream response breaks the client\'s connection, so it never looks complete', async t => {
  for (const isDeclared of [true, false]) {
    const stub = await startUnfinishedUpstream(t, isDeclared)
    const begun = stub.next
    const varve = await varveAt(t, stub.url, small)
    for (const target of [modules, latest, other]) {
      const response = await open(varve.url, target)
      await once(response, 'data')
      const upstreamResponse = await begun()
      upstreamResponse.destroy()
      await t.rejects(read(response), { code: 'ECONNRESET' }, target)
      t.notOk(response.complete)
    }
    const beginning = begun()
    const text = await sendRaw(varve.url, `GET ${modules} HTTP/1.1\r\nHost: x\r\n\r\n`, so => {
      if (so.length > mega) {
        beginning.then(upstreamResponse => upstreamResponse.destroy(), () => {})
      }
      return false
    })
    t.match(text, /^HTTP\/1\.1 200 OK/)
    t.notMatch(text, /\r\n0\r\n\r\n$/)
    t.match(await varve.get('/v1'), { status: 200 })
  }
})

t.test('however a streamed response ends, its slot and connection are released', async t => {
  let arrived = new Deferred<ServerResponse>()
  const stub = await startStubUpstream(t, (request, response) => {
    if (request.url?.includes('2/modules') === true) return respondOk(response, '[]')
    arrived.resolve(response)
  })
  const varve = await varveAt(t, stub.url, { ...small, upstream: { ...small.upstream, maxConcurrent: 2 } })
  const ends: [string, (response: ServerResponse, received: Promise<IncomingMessage>) => Promise<unknown>][] = [
    ['read to its end', async (response, received) => {
      begin(response, undefined).end(bodyOf(2 * mega))
      await read(await received)
    }],
    ['left within', async (response, received) => {
      begin(response, undefined).write(bodyOf(2 * mega))
      const reading = await received
      await once(reading, 'data')
      reading.destroy()
      // The next request would join a fetch that is not cancelled yet.
      t.ok(await gone(response))
    }],
    ['left before it began', async (response, received) => {
      leave()
      await t.rejects(received)
      await varve.get('/v2')
      begin(response, stub.requests.length % 2 === 0 ? undefined : 2 * mega).write(bodyOf(2 * mega))
      t.ok(await gone(response))
    }],
    ['cut by the upstream', async (response, received) => {
      begin(response, 4 * mega).write(bodyOf(2 * mega))
      const reading = await received
      t.equal(reading.statusCode, 200)
      await once(reading, 'data')
      response.destroy()
      await t.rejects(read(reading))
    }]
  ]
  let leave: () => void = () => {}
  for (const [how, end] of ends) {
    for (const target of [modules, latest, other]) {
      // Repeats more often than there are slots, so a leaked slot shows.
      for (let round = 0; round < 9; round++) {
        arrived = new Deferred()
        const { hostname, port } = new URL(varve.url)
        const sent = request({ hostname, port, path: target, agent: new Agent() }).end()
        leave = () => sent.destroy()
        const received = once(sent, 'response').then(([response]) => response as IncomingMessage)
        sent.on('error', () => {})
        await end(await arrived.promise, received)
      }
      t.match(await varve.get(`/v1/accounts/0x2/modules?ledger_version=${500 + stub.requests.length}`), {
        status: 200,
        body: '[]'
      }, `${how}: ${target}`)
    }
  }
})

t.test('a large read never waits for a verification that needs its slot', async t => {
  const stub = await startStubUpstream(t, (request, response) => {
    begin(response, 2 * mega)
    if (request.url?.endsWith('=500') === true) response.end(bodyOf(2 * mega))
    else response.write(bodyOf(1.5 * mega), () => response.destroy())
  })
  const varve = await varveAt(t, stub.url, {
    ...small,
    head: { pollMs: 50 },
    upstream: { timeoutMs: 4000, maxConcurrent: 1 }
  })
  for (let round = 0; round < 8; round++) {
    // Loses a connection, after which the upstream is verified.
    await t.rejects(read(await open(varve.url, latest)))
    t.equal((await read(await open(varve.url, modules))).length, 2 * mega)
  }
})

t.test('a large error is forwarded whole and is not stored', async t => {
  for (const code of [404, 410, 429, 503]) {
    const stub = await startStubUpstream(t, (_request, response) => {
      begin(response, undefined, code).end(bodyOf(2 * mega))
    })
    const varve = await varveAt(t, stub.url, small)
    for (const target of [modules, latest, other]) {
      const got = await varve.get(target)
      t.ok(got.bytes.equals(bodyOf(2 * mega)), `${code} of ${target}`)
      t.match({ ...got.headers, code: got.status }, {
        code,
        [status]: target === modules ? `varve; fwd=uri-miss; fwd-status=${code}; detail=status` : 'varve; fwd=bypass'
      })
    }
    t.equal(stub.requests.length, 3)
  }
})

t.test('a client that stalls within a long response is cut, and its fetch cancelled', async t => {
  // Accelerates the stall limit from 120 s to 240 ms.
  accelerateClientTimeouts(t, 10, 5)
  const stub = await startStubUpstream(t, (_request, response) => {
    begin(response, undefined)
    const pour = (): void => {
      while (response.write(bodyOf(mega)));
    }
    pour()
    response.on('drain', pour)
    responses.push(response)
  })
  const responses: ServerResponse[] = []
  const varve = await varveAt(t, stub.url, small)
  for (const target of [modules, other]) {
    const stalled = await open(varve.url, target)
    t.ok(await gone(responses.pop() as ServerResponse), target)
    await t.rejects(read(stalled), { code: 'ECONNRESET' })
  }
  t.equal(await varve.metric('varve_connections_cut_total{reason="stalled"}'), 2, 'it is counted')
})

t.test('an unused response is discarded: one that lags, or a new rendering that is too large', async t => {
  const older = stamps({
    'x-aptos-ledger-version': '900',
    'x-aptos-ledger-timestampusec': '900000',
    'x-aptos-block-height': '90'
  })
  let release = 'aaaa'
  const responses: ServerResponse[] = []
  const stub = await startStubUpstream(t, (request, response, nth) => {
    responses.push(response)
    if (request.url === latest.replace('0x1', `0x${'1'.padStart(64, '0')}`)) {
      response.writeHead(200, { 'content-type': 'application/json', ...(nth === 1 ? older : stamps()) })
      if (nth === 1) response.write(bodyOf(2 * mega))
      else response.end(bodyOf(2 * mega))
    } else if (release === 'aaaa') respondOk(response, '["cached"]')
    else begin(response, undefined).write(bodyOf(2 * mega))
  }, (_request, response) => response.writeHead(200, stamps()).end(`{"git_hash":"${release}"}`))
  const { context } = contextAt(t, stub.url)
  await context.resolveChain()
  const outcome = await serveRead(context, readOfTarget(latest))
  t.ok(await gone(responses[0] as ServerResponse))
  t.ok((await bytesOf(outcome)).equals(bodyOf(2 * mega)))
  await serveRead(context, readOfTarget(modules))
  release = 'bbbb'
  await context.resolveChain()
  t.match(await serveRead(context, readOfTarget(modules)), {
    name: 'hit',
    tier: 'memory',
    entry: { body: Buffer.from('["cached"]') }
  })
  t.ok(await gone(responses.at(-1) as ServerResponse))
})

t.test('a pipelined request waits for the end of a streamed response', async t => {
  const stub = await startStubUpstream(t, (request, response) => {
    if (request.url?.includes('ledger_version') === true) begin(response, undefined).end('x'.repeat(2 * mega))
    else respondOk(response, '["next"]')
  })
  const varve = await varveAt(t, stub.url, small)
  const text = await sendRaw(
    varve.url,
    `GET ${modules} HTTP/1.1\r\nHost: x\r\n\r\nGET ${latest} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`
  )
  t.same(statusesIn(text), [200, 200])
  t.match(text.slice(-2000), /x\r\n0\r\n\r\nHTTP\/1\.1 200 OK[^]*\["next"\]/)
})

t.test('a shutdown does not wait for a client that stalls', async t => {
  const stub = await startUnfinishedUpstream(t, false)
  const begun = stub.next
  const varve = await varveAt(t, stub.url, small)
  const response = await open(varve.url, modules)
  const upstreamResponse = await begun()
  await varve.stop({ drainMs: 0, graceMs: 50, flushMs: 50 })
  await t.rejects(read(response))
  t.ok(await gone(upstreamResponse))
})
