import { join } from 'node:path'
import t, { type Test } from 'tap'
import { certificate, certificateKey } from '../support/certificate.js'
import { type ConfigChange } from '../support/varve.js'
import {
  type Twins,
  bodySizes,
  drawFrom,
  drawSession,
  drawStream,
  startTwins,
  targetOfSize,
  warmGzip,
  withVariedLines
} from '../support/wire/twin-varves.js'
import { type WireStep } from '../support/wire/wire-session.js'

// Draws another seed each run: SEED=n repeats one, RUNS_FACTOR=n draws so many times as many sessions.
const seed = Number(process.env['SEED'] ?? NaN) || Date.now() % 1_000_000_000
const factor = Number(process.env['RUNS_FACTOR'] ?? NaN) || 1

const small = targetOfSize(600)
const lookup = '{"key_type":"u64","value_type":"u64","key":"1"}'
const get = (target: string, more = '', method = 'GET'): string =>
  `${method} ${target} HTTP/1.1\r\nHost: varve.example\r\nUser-Agent: test\r\n${more}\r\n`
const post = (more = '', body = lookup): string =>
  `POST /v1/tables/0xab/item?ledger_version=500 HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n${more}\r\n${body}`

// Number of requests at the start of the next list that may be remembered.
const repeatable = 18
// Requests of most kinds that a varve meets.
const requests = (etag: string): string[] => [
  ...bodySizes.map(bytes => get(targetOfSize(bytes))),
  get(small, '', 'HEAD'),
  get(small, 'Accept-Encoding: gzip\r\n'),
  get(small, `If-None-Match: ${etag}\r\n`),
  get(small, 'If-None-Match: "other"\r\n'),
  get(small, `If-None-Match: ${etag}\r\nAccept-Encoding: gzip\r\n`, 'HEAD'),
  get(small, 'Origin: https://app.example\r\n'),
  get(small, 'Range: bytes=0-3\r\n'),
  get(small, 'If-Modified-Since: Sat, 21 Nov 2026 00:00:00 GMT\r\n'),
  get(small, 'Cache-Control: no-cache\r\n'),
  get('/v1/estimate_gas_price'),
  post(),
  post('Origin: https://app.example\r\nIf-None-Match: *\r\n'),
  // Never remembered.
  get(small, 'X-Api-Key: key-of-a-client\r\n'),
  get(small, 'Authorization: Bearer key-of-a-client\r\n'),
  get(small, 'Cookie: a=b\r\n'),
  get(small, 'traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n'),
  get(small, 'Expect: 100-continue\r\n'),
  get(small, `X-Long: ${'x'.repeat(2048)}\r\n`),
  get(small, 'X-Varve-Min-Ledger-Version: 5\r\n'),
  get(small, 'Content-Length: 2\r\n') + 'xx',
  post().replace(/Content-Length: \d+/, 'Transfer-Encoding: chunked').replace(lookup, `2f\r\n${lookup}\r\n0\r\n\r\n`),
  // Never hits.
  get('/v1/accounts/0x258/modules'),
  get('/v1/accounts/0xzz/modules?ledger_version=1'),
  get('/v1/unknown'),
  get(small, '', 'OPTIONS'),
  post('', '{}'),
  `\r\n${get(small)}`
]

/** Returns the steps of a client that waits for each response. */
function oneByOne (sent: readonly string[]): WireStep[] {
  return [...sent.flatMap((send, nth) => [{ send }, { responses: nth + 1 }]), 'end']
}

// Requests that end their connection.
const lastRequests = [
  get(small, 'Connection: close\r\n'),
  get(small).replace('HTTP/1.1', 'HTTP/1.0'),
  // Node drops what follows it in the same chunk.
  get(small, 'Connection: keep-alive, Upgrade\r\nUpgrade: h2c\r\n'),
  get(small, 'Host: twice\r\n'),
  get(small).replace('Host: varve.example\r\n', ''),
  'CONNECT node.example:443 HTTP/1.1\r\nHost: x\r\n\r\n',
  'nonsense\r\n\r\n'
]

/** Starts twins, and returns them with the ETag of the small body. */
async function warmTwins (t: Test, change?: ConfigChange): Promise<{ twins: Twins, etag: string }> {
  const twins = await startTwins(t, change)
  await warmGzip(twins, small)
  const { plain } = await twins.run([{ send: get(small, 'Connection: close\r\n') }])
  return { twins, etag: /^etag: (.*)\r$/m.exec(plain)?.[1] ?? '' }
}

/** Runs random sessions at both; expects the same bytes, counters and log lines, and that hits bypassed the parser. */
async function compare (
  t: Test,
  { twins, etag }: Awaited<ReturnType<typeof warmTwins>>,
  sessions: number,
  kinds = requests(etag),
  vary?: typeof withVariedLines
): Promise<void> {
  const draw = drawFrom(seed)
  // Lets each repeatable request be known before.
  for (let times = 0; times < 2; times++) await twins.run(oneByOne(kinds.slice(0, repeatable)))
  for (let nth = 0; nth < sessions * factor; nth++) {
    const last = draw() < 0.1 ? lastRequests[Math.floor(draw() * lastRequests.length)] : undefined
    const steps = [...drawSession(draw, draw() < 0.7 ? kinds.slice(0, repeatable) : kinds, vary)]
    if (last !== undefined) steps.splice(-1, 1, { send: last }, 'end')
    const { fast, plain } = await twins.run(steps)
    if (fast === plain) continue
    t.equal(fast, plain, `session ${nth} of SEED=${seed}: ${JSON.stringify(steps)}`)
    return
  }
  const { fast, plain } = await twins.records()
  t.same(fast, plain, `counters and access log, SEED=${seed}`)
}

t.test(`random requests, split, pipelined and broken off, get the same bytes (seed ${seed})`, async t => {
  const warm = await warmTwins(t, {
    clients: { keys: [{ name: 'known', key: 'key-of-a-client', requestsPerSecond: null }] }
  })
  await compare(t, warm, 80)
  const { fast, plain } = warm.twins.parsed()
  t.ok(fast < 0.8 * plain, `Node parsed ${fast} of ${plain} requests`)
})

t.test('the same holds over TLS', async t => {
  const dir = t.testdir({ 'c.pem': certificate, 'k.pem': certificateKey })
  const warm = await warmTwins(t, { tls: { certFile: join(dir, 'c.pem'), keyFile: join(dir, 'k.pem') } })
  await compare(t, warm, 30, requests(warm.etag).slice(0, repeatable))
  const { fast, plain } = warm.twins.parsed()
  t.ok(fast < 0.8 * plain, `Node parsed ${fast} of ${plain} requests`)
  await compareStreams(t, warm, 100)
})

// Features that read a line which others leave out.
const features: Array<[name: string, change: ConfigChange]> = [
  ['no feature that reads such lines', { log: { access: false } }],
  ['a trusted proxy', { trustProxy: ['loopback'] }],
  ['access lines that name who asked', { trustProxy: ['loopback'], log: { access: true, clientAddress: true } }],
  ['traces', { log: { access: false }, tracing: { otlpUrl: 'http://127.0.0.1:9', sample: 1 } }],
  ['hits charged to addresses', { limits: { client: { requestsPerSecond: 1000, exemptHits: false } } }],
  ['hits charged to forwarded addresses', {
    trustProxy: ['loopback'],
    limits: { client: { requestsPerSecond: 1000, exemptHits: false } }
  }]
]
for (const [name, change] of features) {
  t.test(`lines that proxies and tracers vary get the same bytes with ${name} (seed ${seed})`, async t => {
    const warm = await warmTwins(t, change)
    await compare(t, warm, 30, requests(warm.etag), withVariedLines)
    await compareStreams(t, warm, 60, withVariedLines)
  })
}

t.test('a known request that is split or pipelined at any byte gets the same response', async t => {
  const { twins } = await warmTwins(t)
  for (const known of [get(small), post()]) {
    await twins.run([{ send: known }, { responses: 1 }, 'end'])
    const expected = await twins.run([{ send: known }, { responses: 1 }, { send: known }, { responses: 2 }, 'end'])
    t.equal(expected.fast, expected.plain)
    const [response] = expected.plain.split(/(?=HTTP\/1\.1 )/)
    // Follows each split request by a whole one, and splits two that are sent together.
    const steps = [{ send: known }, { responses: 1 }]
    let responses = 1
    for (let cut = 1; cut < known.length; cut++) {
      steps.push({ send: known.slice(0, cut) }, { send: known.slice(cut) }, { responses: ++responses })
      steps.push({ send: known }, { responses: ++responses })
      steps.push({ send: known + known.slice(0, cut) }, { send: known.slice(cut) }, { responses: responses += 2 })
    }
    const before = twins.parsed().fast
    const { fast } = await twins.run([...steps, 'end'])
    t.equal(fast, response?.repeat(responses))
    t.ok(twins.parsed().fast - before < responses, 'hits bypassed the parser in between')
  }
})

/** Runs drawn attacks at both, with honest sessions between; expects the same bytes. */
async function compareStreams (
  t: Test,
  { twins, etag }: Awaited<ReturnType<typeof warmTwins>>,
  streams: number,
  vary?: typeof withVariedLines
): Promise<void> {
  const known = requests(etag).slice(0, repeatable)
  const draw = drawFrom(seed)
  const [gets, posts] = [known.filter(text => !text.startsWith('POST')), known.filter(text => text.startsWith('POST'))]
  for (let nth = 0; nth < streams * factor; nth++) {
    const stream = drawStream(draw, gets, posts, vary)
    for (const steps of nth % 20 === 0 ? [stream, oneByOne(known)] : [stream]) {
      const { fast, plain } = await twins.run(steps)
      if (fast === plain) continue
      t.equal(fast, plain, `stream ${nth} of SEED=${seed}: ${JSON.stringify(steps)}`)
      return
    }
  }
  const { fast, plain } = twins.parsed()
  t.ok(fast < 0.9 * plain, `Node parsed ${fast} of ${plain} requests`)
}

t.test(`requests inside other requests get the same bytes, and so does all after them (seed ${seed})`, async t => {
  await compareStreams(t, await warmTwins(t), 1000)
})

t.test('a head or body broken off at any byte before a known request gets the same bytes', async t => {
  const { twins, etag } = await warmTwins(t)
  const known = requests(etag).slice(0, repeatable)
  for (const request of [get(small).replace('Host: varve.example\r\n', ''), post()]) {
    for (let cut = 1; cut < request.length; cut++) {
      const whole = known[cut % repeatable] ?? ''
      const tail = cut % 2 === 0 ? whole : whole + get(small)
      const { fast, plain } = await twins.run([{ send: request.slice(0, cut) }, { send: tail }, 'end'])
      if (fast !== plain) t.equal(fast, plain, `cut at ${cut}: ${request}`)
    }
  }
  const { fast, plain } = await twins.run(oneByOne(known))
  t.equal(fast, plain)
})
