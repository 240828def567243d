import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { EventEmitter, once } from 'node:events'
import { Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t, { type Test } from 'tap'
import { configSchema, type Config } from '../../src/config/schema.js'
import { accelerateClientTimeouts } from '../support/accelerated-timeouts.js'
import { openRaw } from '../support/raw.js'
import { respondOk, stamps, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { type ConfigChange, type TestVarve, varveAt } from '../support/varve.js'
import { countParsedRequests, runWireSession } from '../support/wire/wire-session.js'

const modules = '/v1/accounts/0x1/modules?ledger_version=500'
const get = (target = modules, more = ''): string => `GET ${target} HTTP/1.1\r\nHost: x\r\n${more}\r\n`

const bcs = 'application/x-bcs'

/** Opens a kept-alive connection; `ask` sends a request whole and returns its response. */
function clientOf (t: Test, { url }: Pick<TestVarve, 'url'>) {
  const client = openRaw(t, url)
  const { socket } = client
  socket.setNoDelay(true)
  return {
    socket,
    ask: async (request = get()) => {
      client.text = ''
      socket.write(request)
      await until(() => isWhole(client.text) || socket.destroyed, 'a response comes')
      return client.text
    }
  }
}

function isWhole (text: string): boolean {
  const length = /^content-length: (\d+)/im.exec(text)?.[1]
  const end = text.indexOf('\r\n\r\n')
  return end !== -1 && text.length >= end + 4 + Number(length ?? 0)
}

/** Sends a request until its bytes are known; `parsed` counts what Node parsed since the last call. */
async function start (
  t: Test,
  change: ConfigChange = {},
  bodyOf: (target: string) => string = () => '[]'
) {
  const stub = await startStubUpstream(t, (request, response) => {
    const { url = '', headers: { accept = '' } } = request
    const version = Number(/ledger_version=(\d+)/.exec(url)?.[1])
    if (accept === bcs) respondOk(response, '\0', { 'content-type': bcs })
    else respondOk(response, bodyOf(url), stamps({ 'x-aptos-ledger-version': String(Math.max(1000, version)) }))
  })
  const varve = await varveAt(t, stub.url, change)
  const parsedBy = countParsedRequests(t)
  let before = 0
  const client = clientOf(t, varve)
  for (let times = 0; times < 3; times++) await client.ask()
  const parsed = (): number => {
    const all = parsedBy(varve.url)
    const since = all - before
    before = all
    return since
  }
  parsed()
  return { varve, client, parsed }
}

t.test('Node parses the first request of a connection, and no known one after it', async t => {
  const { varve, client, parsed } = await start(t)
  for (let times = 0; times < 5; times++) t.match(await client.ask(), /detail=memory/)
  t.equal(parsed(), 0)
  const other = clientOf(t, varve)
  t.match(await other.ask(), /detail=memory/)
  t.equal(parsed(), 1)
  t.match(await other.ask(), /detail=memory/)
  t.equal(parsed(), 0)
  t.equal(await varve.metric('varve_requests_total{endpoint="account_modules",outcome="hit_memory",status="200"}'), 9)
})

t.test('a request inside the bytes of another is never served as that other one', async t => {
  const other = modules.replace('500', '600')
  const nodeFetch = 'host: x\r\nconnection: keep-alive\r\naccept: */*\r\naccept-language: *\r\n' +
    'sec-fetch-mode: cors\r\nuser-agent: node\r\naccept-encoding: gzip, deflate\r\n'
  // Each takes the place of a victim's request on an attacker's connection.
  const carriers: Array<[why: string, head: string, victim?: string]> = [
    ['another resource', `GET ${other} HTTP/1.1\r\n`],
    ['a response without a body', `HEAD ${modules} HTTP/1.1\r\n`],
    ['not modified', `GET ${modules} HTTP/1.1\r\nIf-None-Match: *\r\n`],
    ['BCS for JSON', `GET ${modules} HTTP/1.1\r\nAccept: ${bcs}\r\n`],
    ['a page of another origin', `GET ${modules} HTTP/1.1\r\nOrigin: https://evil.example\r\n`],
    ['the bytes of Node\'s fetch', `GET ${other} HTTP/1.1\r\n`, `GET ${modules} HTTP/1.1\r\n${nodeFetch}\r\n`]
  ]
  const { varve } = await start(t, {}, target => JSON.stringify(target))
  for (const [why, head, request = get()] of carriers) {
    // Opens the victim's connection before the attack. Its first request is always parsed.
    const honest = [{ send: request }, { responses: 1 }, { send: request }, { responses: 2 }]
    const attack = [{ send: `${head}X: ` }, { send: request }, { responses: 1 }, 'end'] as const
    const warm = [{ send: `${head}Host: x\r\n\r\n` }, { responses: 1 }, 'end'] as const
    const theirs: string[] = []
    const during = async (): Promise<void> => {
      for (const steps of [warm, warm, attack, attack]) theirs.push(await runWireSession(varve.url, steps))
    }
    const text = await runWireSession(varve.url, [...honest, during, { send: request }, { responses: 3 }, 'end'])
    const [first = ''] = text.split(/(?=HTTP\/1\.1 )/)
    t.equal(text, first.repeat(3), why)
    t.equal(theirs.at(-1), theirs.at(1), `${why}: the attacker gets what was asked for`)
  }
})

t.test('two requests that come together get two responses, however often they come', async t => {
  const { varve } = await start(t, {}, target => JSON.stringify(target))
  const both = get() + get(modules.replace('500', '600'))
  for (let times = 0; times < 4; times++) {
    const text = await runWireSession(varve.url, [{ send: get() }, { responses: 1 }, { send: both }, 'end'])
    t.same([...text.matchAll(/version=(\d+)"/g)].map(found => found[1]), ['500', '500', '600'])
  }
})

/** Returns a function that collects garbage. */
function collector (): () => void {
  setFlagsFromString('--expose-gc')
  return runInNewContext('gc') as () => void
}

t.test('a known request retains none of what is left out of it', async t => {
  const collect = collector()
  const { varve } = await start(t)
  const growth = async (name: string, count: number): Promise<number> => {
    collect()
    const before = process.memoryUsage().heapUsed
    const steps = Array.from({ length: count }, (_, nth) => [
      { send: get(modules, `X-Agent: ${name}${nth}\r\nUser-Agent: ${String(nth).padStart(1700, 'x')}\r\n`) },
      { responses: nth + 1 }
    ])
    await runWireSession(varve.url, [...steps.flat(), 'end'])
    steps.length = 0
    await turn()
    collect()
    return process.memoryUsage().heapUsed - before
  }
  await growth('first', 200)
  const bytes = await growth('other', 2000) / 2000
  // The line that is left out takes 1,700 bytes of each, and 3,400 as text and header.
  t.ok(bytes < 2200, `${bytes} bytes for each`)
})

t.test('an open connection retains none of the requests that it has sent', async t => {
  const collect = collector()
  const { varve } = await start(t)
  const requests: Array<WeakRef<object>> = []
  const see = (message: unknown): void => {
    requests.push(new WeakRef((message as { readonly request: object }).request))
  }
  subscribe('http.server.request.start', see)
  t.teardown(() => unsubscribe('http.server.request.start', see))
  // The bypass cannot place the requests after an empty line, nor a head in pieces with what is before it.
  for (const before of ['', '\r\n', get()]) {
    requests.length = 0
    let retained = NaN
    const count = async (): Promise<void> => {
      await turn()
      collect()
      retained = requests.filter(request => request.deref() !== undefined).length
    }
    const send = before + 'GET /x HTTP/1.1\r\nHost:\r\n\r\n'.repeat(100)
    await runWireSession(varve.url, [{ send }, { send: 'GET /x' }, { responses: 100 }, count, 'end'])
    t.ok(retained < 10, `${retained} of ${requests.length} requests`)
  }
})

t.test('a known request waits for the response that is due before it', async t => {
  let answerMiss: (() => void) | undefined
  const stub = await startStubUpstream(t, ({ url }, response) => {
    const answer = (): void => respondOk(response, JSON.stringify(url))
    if (url?.endsWith('600') === true) answerMiss = answer
    else answer()
  })
  const varve = await varveAt(t, stub.url)
  const { socket, ask } = clientOf(t, varve)
  for (let times = 0; times < 3; times++) await ask()
  let text = ''
  socket.on('data', chunk => {
    text += String(chunk)
  })
  socket.write(get(modules.replace('500', '600')))
  await until(() => answerMiss !== undefined, 'the miss is at its upstream')
  socket.write(get())
  // Varve has read the known request by then.
  for (let times = 0; times < 3; times++) await varve.get(modules)
  answerMiss?.()
  const answered = (): Array<string | undefined> => [...text.matchAll(/version=(\d+)"/g)].map(found => found[1])
  await until(() => answered().length === 2, 'both responses')
  t.same(answered(), ['600', '500'])
})

t.test('requests with credentials, and large heads, are not remembered', async t => {
  const { client, parsed } = await start(t)
  const lines = [
    'Authorization: Bearer x',
    'Proxy-Authorization: Basic eA==',
    'X-Api-Key: x',
    'Cookie: a=b',
    'Expect: 100-continue',
    'Upgrade: h2c',
    `X-Long: ${'x'.repeat(2048)}`
  ]
  for (const line of lines) {
    for (let times = 0; times < 3; times++) await client.ask(get(modules, `${line}\r\n`))
    t.equal(parsed(), 3, line)
  }
  await client.ask()
  t.equal(parsed(), 0, 'the known request still is')
})

const trace = 'traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0'
const varied = (nth: number): string =>
  `User-Agent: ${nth}\r\nX-Forwarded-For: 203.0.113.${nth}\r\nX-Request-Id: id-${nth}\r\n${trace}${nth}\r\n`

t.test('a known request may vary in lines that no feature reads', async t => {
  const { client, parsed } = await start(t)
  for (let times = 0; times < 2; times++) await client.ask(get(modules, varied(0)))
  parsed()
  for (let nth = 1; nth < 5; nth++) t.match(await client.ask(get(modules, varied(nth))), /detail=memory/)
  t.equal(parsed(), 0)
  const others = [
    varied(5).replace('User-Agent', 'X-Agent'),
    varied(5).replace('User-Agent: 5', 'User-Agent: 5\r\nUser-Agent: 6'),
    varied(5).replace('User-Agent: 5', 'User-Agent: \xe9')
  ]
  for (const lines of others) t.match(await client.ask(get(modules, lines)), /detail=memory/)
  t.equal(parsed(), others.length)
})

t.test('lines that a feature reads are read of every request', async t => {
  const idOf = (text: string): string | undefined => /^x-request-id: (.*)\r$/im.exec(text)?.[1]
  const proxied = await start(t, { trustProxy: ['loopback'] })
  for (let nth = 0; nth < 4; nth++) t.equal(idOf(await proxied.client.ask(get(modules, varied(nth)))), `id-${nth}`)
  t.equal(proxied.parsed(), 4)
  const logged = await start(t, { log: { access: true } })
  for (let nth = 0; nth < 4; nth++) await logged.client.ask(get(modules, varied(nth).replaceAll('0af', `${nth}af`)))
  const traceIds = logged.varve.log.map(line => line['traceId']).filter(id => id !== undefined)
  t.same(traceIds.map(id => String(id).slice(0, 3)), ['0af', '1af', '2af', '3af'])
})

t.test('a known request is charged to the client that a trusted proxy names', async t => {
  const { client, parsed } = await start(t, {
    trustProxy: ['loopback'],
    limits: { client: { requestsPerSecond: 1, burst: 100, exemptHits: false } }
  })
  const from = async (nth: number): Promise<string> =>
    await client.ask(get(modules, `X-Forwarded-For: 192.0.2.${nth}\r\n`))
  // Has room for what each asks, and not for what both ask.
  for (const [nth, requests] of [[2, 1], [1, 90], [2, 30]] as const) {
    for (let times = 0; times < requests; times++) t.match(await from(nth), /detail=memory/)
  }
  t.equal(parsed(), 2, 'the others are known')
  await until(async () => (await from(1)).includes('detail=limited'), 'the client has reached its limit')
})

t.test('a known request that turns out to be no hit is charged once', async t => {
  const { varve, client } = await start(t, {
    admin: { listen: '127.0.0.1:0', token: 'x' },
    limits: { client: { requestsPerSecond: 1, burst: 20, exemptHits: false } }
  })
  let answered = 3
  while ((await client.ask()).includes('200 OK')) {
    answered++
    await fetch(`${varve.adminUrl}/purge`, {
      method: 'POST',
      headers: { authorization: 'Bearer x' },
      body: JSON.stringify({ method: 'GET', url: modules })
    })
  }
  t.ok(answered >= 20, `${answered} of 20`)
})

t.test('a known request carries the present position', async t => {
  const { client, parsed } = await start(t)
  t.match(await client.ask(), /X-NODE-LEDGER-VERSION: 1000\r/)
  await client.ask(get(modules.replace('500', '2000')))
  parsed()
  t.match(await client.ask(), /X-NODE-LEDGER-VERSION: 2000\r/)
  t.equal(parsed(), 0)
})

t.test('a known request of a purged read is fetched, and Node writes a body that is too large', async t => {
  const bodies = ['[1]', `"${'x'.repeat(200_000)}"`]
  const { varve, client, parsed } = await start(
    t,
    { admin: { listen: '127.0.0.1:0', token: 'x' } },
    () => bodies.shift() ?? '[]'
  )
  t.match(await client.ask(), /\[1\]$/)
  t.equal(parsed(), 0)
  const purged = await fetch(`${varve.adminUrl}/purge`, {
    method: 'POST',
    headers: { authorization: 'Bearer x' },
    body: JSON.stringify({ method: 'GET', url: modules })
  })
  t.equal(purged.status, 200)
  for (const cacheStatus of [/fwd=uri-miss/, /detail=memory/, /detail=memory/]) {
    const text = await client.ask()
    t.match(text, cacheStatus)
    t.ok(text.length > 200_000)
    t.equal(parsed(), 1)
  }
})

t.test('where Node lacks what the fast path needs, the log says it once and Node parses all', async t => {
  t.intercept(Socket.prototype, 'listeners', {
    value: function (this: Socket, event: string) {
      return event === 'data' ? [] : EventEmitter.prototype.listeners.call(this, event)
    }
  })
  const { varve, client, parsed } = await start(t)
  const other = clientOf(t, varve)
  for (const { ask } of [client, other, client]) t.match(await ask(), /detail=memory/)
  t.equal(parsed(), 3)
  t.equal(varve.log.filter(({ msg }) => String(msg).startsWith('http.fastPath has no effect')).length, 1)
})

t.test('a drain closes a connection with its next response, known or not', async t => {
  const { varve, client, parsed } = await start(t)
  const stopping = varve.stop({ drainMs: 200 })
  t.match(await client.ask(), /^connection: close\r$/im)
  t.equal(parsed(), 1)
  await stopping
})

t.test('http.fastPath takes effect at a reload', async t => {
  const { varve, client, parsed } = await start(t)
  const config = (fastPath: boolean): Config =>
    configSchema.parse({
      listen: '127.0.0.1:0',
      admin: { listen: '127.0.0.1:0' },
      upstreams: [{ name: 'node', url: 'http://127.0.0.1:9' }],
      head: { pollMs: 600_000 },
      http: { fastPath }
    })
  await varve.reload(config(false))
  for (let times = 0; times < 3; times++) t.match(await client.ask(), /detail=memory/)
  t.equal(parsed(), 3)
  await varve.reload(config(true))
  for (let times = 0; times < 4; times++) t.match(await client.ask(), /detail=memory/)
  t.equal(parsed(), 2, 'the first is parsed again, and the second known')
})

t.test('known requests of a client that does not read wait in Node, and all are answered in order', async t => {
  accelerateClientTimeouts(t, 10)
  const body = `"${'x'.repeat(100_000)}"`
  const { varve, client, parsed } = await start(t, {}, () => body)
  const { socket } = client
  socket.pause()
  let sent = 0
  // Fills the buffers of the kernel.
  await until(async () => {
    socket.write(get())
    sent++
    return Number(await varve.metric('varve_in_flight_bytes')) > 0
  }, 'a response does not fit')
  t.ok(parsed() < sent, `${sent} sent`)
  // Waits for longer than an idle connection may live.
  await new Promise(resolve => setTimeout(resolve, 1000))
  socket.write(get(modules, 'Connection: close\r\n'))
  let text = ''
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1')
  }).resume()
  await once(socket, 'close')
  t.equal(text.split(body).length - 1, sent + 1)
  t.equal(await varve.metric('varve_in_flight_bytes'), 0)
  t.equal(await varve.metric('varve_connections_cut_total{reason="head"}'), 0)
})

t.test('a client that stops reading known responses is cut after 120 seconds', async t => {
  accelerateClientTimeouts(t, 5)
  const { varve, client } = await start(t, {}, () => `"${'x'.repeat(100_000)}"`)
  client.socket.pause()
  await until(async () => {
    client.socket.write(get())
    return Number(await varve.metric('varve_in_flight_bytes')) > 0
  }, 'a response does not fit')
  await until(async () => await varve.metric('varve_connections_cut_total{reason="stalled"}') === 1, 'it is cut')
  await until(async () => await varve.metric('varve_in_flight_bytes') === 0, 'its bytes are free')
})
