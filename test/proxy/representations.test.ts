import { syncBuiltinESMExports } from 'node:module'
import zlib, { brotliDecompressSync, gunzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { configSchema } from '../../src/config/schema.js'
import { type ProxyParts } from '../../src/http/send-response.js'
import { type DownstreamCacheControl, ResponseBuilder } from '../../src/proxy/response-builder.js'
import { type Sandbox, startSandbox } from '#sandbox'
import { publicApp } from '../../src/http/public-app.js'
import { type TestRequest, type TestResponse, sendRequest, tableItemLookup } from '../support/client.js'
import { contextAt, listenerContextOf, settingsOf } from '../support/proxy-context.js'
import { respondOk, stamps, startStubUpstream } from '../support/stub-upstream.js'

const status = 'cache-status'
const hit = 'varve; hit; detail=memory'
const bcs = { headers: { accept: 'application/x-bcs' } }
const modules = '/v1/accounts/0x1/modules?ledger_version=2000'
const latest = '/v1/accounts/0x1/modules'
const block = '/v1/blocks/by_version/2000'
const fullBlock = `${block}?with_transactions=true`
const stream = '/v1/accounts/0x1/events/0x1::block::BlockResource/new_block_events'
const page = `${stream}?start=300&limit=10`
const table = '/v1/tables/0x5eed/item?ledger_version=2000'
const cells = tableItemLookup('u64', '"2"', 'vector<0x42::game::Cell>')
const info = '/v1/info'
const positionNames = [
  'chain-id',
  'ledger-version',
  'ledger-oldest-version',
  'ledger-timestampusec',
  'epoch',
  'block-height',
  'oldest-block-height'
].flatMap(name => [`x-node-${name}`, `x-aptos-${name}`])
// One target of each kind that is stored, in the upstream's form.
const storedReads: readonly [string, TestRequest][] = [
  [modules, {}],
  [modules, bcs],
  [fullBlock, {}],
  [fullBlock, bcs],
  [block, {}],
  [block, bcs],
  [page, {}],
  [table, cells],
  [table, add(cells, bcs.headers)]
]

function add (options: TestRequest, headers: Record<string, string | string[]>): TestRequest {
  return { ...options, headers: { ...options.headers, ...headers } }
}

interface Proxy {
  readonly parts: ProxyParts
  get(target: string, options?: TestRequest): Promise<TestResponse>
}

/** Starts the public listener in front of an upstream; the clock stands still. */
async function proxyAt (
  t: Test,
  url: string,
  { cacheControl = 'revalidate', ...change }: { cacheControl?: DownstreamCacheControl, latest?: object } = {}
): Promise<Proxy> {
  const made = contextAt(t, url).context
  const parts = { ...made, settings: settingsOf(change) }
  const config = configSchema.parse({ limits: { bodyKb: 1 } })
  const { app } = publicApp(
    listenerContextOf(parts, { config, responseBuilder: new ResponseBuilder(parts, cacheControl) })
  )
  t.teardown(async () => {
    await app.close()
  })
  const own = await app.listen({ port: 0, host: '127.0.0.1' })
  await parts.resolveChain()
  return { parts, get: async (target, options) => await sendRequest(own, target, options) }
}

async function proxyAtSandbox (
  t: Test,
  ...how: [Parameters<typeof proxyAt>[2]?]
): Promise<Proxy & { sandbox: Sandbox }> {
  const sandbox = await startSandbox({ blockMs: 0 })
  t.teardown(async () => {
    await sandbox.close()
  })
  const proxy = await proxyAt(t, sandbox.url, ...how)
  sandbox.requests.reset()
  return { ...proxy, sandbox }
}

/** Makes every coded form of a response; returns its tags. */
async function packed (
  { parts, get }: Proxy,
  target: string,
  options: TestRequest = {}
): Promise<{ plain: string, br: string, gzip: string }> {
  for (const coding of ['br', 'gzip']) {
    await get(target, add(options, { 'accept-encoding': coding }))
    await parts.compressor.waitUntilIdle()
  }
  const tagFor = async (coding: string): Promise<string> =>
    String((await get(target, add(options, { 'accept-encoding': coding }))).headers.etag)
  return { plain: await tagFor('identity'), br: await tagFor('br'), gzip: await tagFor('gzip') }
}

function unpack ({ headers, bytes }: TestResponse): Buffer {
  switch (headers['content-encoding']) {
    case 'br':
      return brotliDecompressSync(bytes)
    case 'gzip':
      return gunzipSync(bytes)
    default:
      return bytes
  }
}

/** Returns texts that resemble a tag, but are none, or not this one. */
const damaged = (tag: string): string[] => [
  tag.slice(1, -1),
  tag.slice(0, -1),
  tag.slice(1),
  tag.toLowerCase(),
  tag.toUpperCase(),
  ...[`w/${tag}`, `W/ ${tag}`, `W/W/${tag}`, `${tag} "x"`, `"${tag}"`],
  tag.replace(/"$/, '-zstd"'),
  'x'.repeat(10_000)
]

const without = (headers: TestResponse['headers'], ...names: string[]): object =>
  Object.fromEntries(
    Object.entries(headers).filter(([name]) => name !== 'date' && name !== 'x-request-id' && !names.includes(name))
  )

t.test('each coded form has the upstream\'s bytes and its own tag, and JSON and BCS never mix', async t => {
  const proxy = await proxyAtSandbox(t)
  const { sandbox, parts, get } = proxy
  const tags = new Set<unknown>()
  for (const [target, options] of storedReads) {
    const direct = await sendRequest(sandbox.url, target, options)
    for (const coding of [undefined, 'br', 'gzip']) {
      const request = coding === undefined ? options : add(options, { 'accept-encoding': coding })
      await get(target, request)
      await parts.compressor.waitUntilIdle()
      const got = await get(target, request)
      const name = `${target} ${options.headers?.['accept'] ?? ''} ${coding}`
      t.same(unpack(got), direct.bytes, name)
      const isPacked = coding !== undefined && direct.bytes.length > 256
      t.match(got, {
        status: 200,
        headers: {
          [status]: hit,
          vary: 'Accept, Accept-Encoding',
          'content-type': direct.headers['content-type'],
          'content-encoding': isPacked ? coding : undefined,
          'content-length': String(got.bytes.length)
        }
      }, name)
      t.equal(got.bytes.length < direct.bytes.length, isPacked, name)
      tags.add(got.headers.etag)
    }
  }
  t.equal(tags.size, 6 * 3 + 3, 'three of nine are too small to compress')
  t.equal(sandbox.requests.total, 2 * storedReads.length, 'each was read once for all forms')
  t.ok(
    sandbox.requests.latest.filter(({ headers }) => headers.some(text => /br|gzip/.test(text))).length === 0,
    'varve requests plain bytes only'
  )
})

t.test('no hit waits for a coded form: a burst gets what is ready, and the form is made once', async t => {
  const { parts, get, sandbox } = await proxyAtSandbox(t)
  const jobs: Array<() => void> = []
  const { brotliCompress } = zlib
  Object.assign(zlib, {
    brotliCompress: (...args: Parameters<typeof brotliCompress>) => {
      jobs.push(() => {
        brotliCompress(...args)
      })
    }
  })
  syncBuiltinESMExports()
  t.teardown(() => {
    Object.assign(zlib, { brotliCompress })
    syncBuiltinESMExports()
  })
  const brotli = { headers: { 'accept-encoding': 'br' } }
  const burst = async (target: string): Promise<unknown[]> => {
    const all = await Promise.all(Array.from({ length: 100 }, async () => await get(target, brotli)))
    return [
      ...new Set(
        all.map(({ status, headers }) => `${status} ${headers['content-encoding']} ${headers['content-length']}`)
      )
    ]
  }
  for (const target of [modules, fullBlock]) {
    const { length } = (await sendRequest(sandbox.url, target)).bytes
    t.same(await burst(target), [`200 undefined ${length}`], 'misses and hits alike')
    t.same(await burst(target.replace('2000?', '1995?')), [`200 undefined ${length}`])
    t.equal(jobs.length, 1)
    jobs.pop()?.()
    await parts.compressor.waitUntilIdle()
    t.match(await burst(target.replace('2000?', '2003?')), [/^200 br \d+$/], 'any version of the block')
    t.same(jobs, [])
  }
})

t.test('a client with a matching tag gets a 304, by weak comparison, if it still accepts the form', async t => {
  const proxy = await proxyAtSandbox(t)
  for (const [target, how] of [[modules, {}], [page, {}], [table, cells]] as const) {
    const { plain, br, gzip } = await packed(proxy, target, how)
    const cases: readonly [string | undefined, string | string[], string | undefined][] = [
      [undefined, plain, plain],
      [undefined, `W/${plain}`, plain],
      [undefined, '*', plain],
      [undefined, ' * ', plain],
      [undefined, `"x",W/"y" , ${plain}`, plain],
      [undefined, ['"x"', plain], plain],
      [undefined, `W/${br},${plain}`, plain],
      [undefined, br, undefined],
      [undefined, `${gzip}, ${br}`, undefined],
      ['br', plain, plain],
      ['br', br, br],
      ['br', `W/${br}`, br],
      ['br', '*', br],
      ['br', `${plain}, ${br}`, br],
      ['br', gzip, undefined],
      ['gzip', gzip, gzip],
      ['gzip', br, undefined],
      ['br, gzip', gzip, gzip],
      ['br, gzip', `${plain}, ${gzip}, ${br}`, br],
      ['gzip;q=0.5, identity', gzip, undefined],
      ['gzip;q=0.5, identity', plain, plain],
      ['br;q=0, gzip', br, undefined],
      ...[...'| , | " | "" | W/ | W/* | ** | "*" | *, "x"'.split(' | '), ...damaged(plain)]
        .map((ifNoneMatch): [undefined, string, undefined] => [undefined, ifNoneMatch, undefined])
    ]
    for (const [acceptEncoding, ifNoneMatch, tag] of cases) {
      const name = `${target} ${acceptEncoding}: ${String(ifNoneMatch).slice(0, 100)}`
      const got = await proxy.get(
        target,
        add(how, { 'if-none-match': ifNoneMatch, 'accept-encoding': acceptEncoding ?? '' })
      )
      t.equal(got.status, tag === undefined ? 200 : 304, name)
      t.equal(got.bytes.length, tag === undefined ? Number(got.headers['content-length']) : 0, name)
      if (tag !== undefined) t.equal(got.headers.etag, tag, name)
    }
  }
})

t.test('a 304 has every header of the 200 except those of the body, and the present position', async t => {
  const proxy = await proxyAtSandbox(t, { cacheControl: 'immutable' })
  const limited = `${modules}&limit=3`
  for (
    const [target, how, name] of [
      [limited, {}, hit],
      [fullBlock, {}, hit],
      [page, {}, hit],
      [table, cells, hit],
      [info, {}, hit],
      [`${latest}?limit=3`, {}, 'varve; fwd=bypass'],
      [`${stream}?limit=2`, {}, 'varve; fwd=bypass']
    ] as const
  ) {
    for (const coding of ['identity', 'gzip']) {
      const request = add(how, { 'accept-encoding': coding })
      await packed(proxy, target, how)
      const full = await proxy.get(target, request)
      t.equal(full.headers[status], name)
      proxy.sandbox.ledger.grow()
      await proxy.parts.resolveChain()
      const got = await proxy.get(
        target,
        add(request, {
          'if-none-match': target.startsWith(stream) && target !== page ? '*' : String(full.headers.etag)
        })
      )
      t.same([got.status, got.body], [304, ''], target)
      const now = await proxy.get(target, request)
      t.equal(now.headers['x-node-ledger-version'], String(proxy.sandbox.ledger.head.version))
      t.same(without(got.headers), without(now.headers, 'content-type', 'content-length', 'content-encoding'), target)
      if (target.includes('limit=3')) {
        t.ok(got.headers['x-node-cursor'] && got.headers['x-aptos-cursor'], 'the cursor is there too')
      }
    }
  }
})

t.test('a miss ends in a 304 if the fetched response matches the client\'s tag', async t => {
  const first = await proxyAtSandbox(t)
  const { br } = await packed(first, modules)
  const second = await proxyAt(t, first.sandbox.url)
  t.match(await second.get(modules, { headers: { 'accept-encoding': 'br', 'if-none-match': br } }), {
    status: 304,
    headers: { [status]: 'varve; fwd=uri-miss; fwd-status=200; stored', etag: br }
  })
  t.match(await second.get(modules), { status: 200, headers: { [status]: hit } })
})

t.test('date conditions are ignored, and If-None-Match comes first', async t => {
  const { get } = await proxyAtSandbox(t)
  const [past, future] = ['Thu, 01 Jan 1970 00:00:00 GMT', 'Fri, 01 Jan 2100 00:00:00 GMT']
  for (const target of [modules, latest, info]) {
    const { headers: { etag, 'last-modified': modified } } = await get(target)
    t.equal(modified, undefined)
    const cases: readonly [Record<string, string>, number][] = [
      [{ 'if-modified-since': future }, 200],
      [{ 'if-modified-since': past }, 200],
      [{ 'if-unmodified-since': past }, 200],
      [{ 'if-modified-since': 'never' }, 200],
      [{ 'if-modified-since': future, 'if-none-match': '"other"' }, 200],
      [{ 'if-modified-since': past, 'if-none-match': String(etag) }, 304]
    ]
    for (const [headers, code] of cases) {
      t.equal((await get(target, { headers })).status, code, `${target} ${JSON.stringify(headers)}`)
    }
  }
})

t.test('ranges are neither served nor offered: every response is whole', async t => {
  const proxy = await proxyAtSandbox(t)
  for (const target of [modules, fullBlock, page, latest, info]) {
    for (const acceptEncoding of ['identity', 'br']) {
      for (const range of ['bytes=0-0', 'bytes=0-1, 5-6', 'bytes=-1', 'bytes=99999999-', 'bytes=5-1', 'items=0-1']) {
        const plain = await proxy.get(target)
        for (
          const headers of [{ range }, { range, 'if-range': String(plain.headers.etag) }, {
            range,
            'if-range': 'Fri, 01 Jan 2100 00:00:00 GMT'
          }]
        ) {
          const got = await proxy.get(target, { headers: { ...headers, 'accept-encoding': acceptEncoding } })
          if (
            got.status !== 200 || got.headers['accept-ranges'] !== undefined ||
            got.headers['content-range'] !== undefined || !unpack(got).equals(plain.bytes)
          ) t.fail(`${target} ${JSON.stringify(headers)}`, { got })
        }
      }
      await proxy.parts.compressor.waitUntilIdle()
    }
  }
  t.ok(
    proxy.sandbox.requests.latest.every(({ headers }) => !headers.some(name => /range/i.test(name))),
    'no Range reaches the upstream'
  )
})

t.test('HEAD has every header of GET, coded or not, and no body', async t => {
  const proxy = await proxyAtSandbox(t)
  for (
    const [target, how] of [
      ...storedReads.filter(([target]) => target !== table),
      [info, {}],
      [latest, {}],
      [stream, {}],
      ['/v1/accounts/0x9/modules', {}],
      ['/v1/accounts/xyz/modules', {}],
      ['/v1/blocks/by_version/1', {}]
    ] as const
  ) {
    for (const coding of ['identity', 'br', 'gzip']) {
      await packed(proxy, target, how)
      const request = add(how, { 'accept-encoding': coding })
      const [head, get] = [await proxy.get(target, { ...request, method: 'HEAD' }), await proxy.get(target, request)]
      t.equal(head.bytes.length, 0)
      t.same([head.status, without(head.headers)], [get.status, without(get.headers)], `${target} ${coding}`)
      t.equal(head.headers['content-length'], String(get.bytes.length))
    }
  }
  const { br } = await packed(proxy, modules)
  t.match(await proxy.get(modules, { method: 'HEAD', headers: { 'accept-encoding': 'br', 'if-none-match': br } }), {
    status: 304,
    headers: { etag: br }
  })
})

t.test('a moving response carries the tag of its plain bytes, and gets a 304 while they stay', async t => {
  const proxy = await proxyAtSandbox(t, { latest: { promote: false, infoMs: 0, gasMs: 0 } })
  const { get, sandbox } = proxy
  for (
    const [target, how, other] of [[latest, {}, bcs], ['/v1/estimate_gas_price', {}, bcs], [stream, {}, bcs], [
      `${stream}?start=995`,
      {},
      bcs
    ], [table.replace(/\?.*/, ''), cells, add(cells, bcs.headers)]] as const
  ) {
    const tags = await packed(proxy, target, how)
    t.equal(new Set(Object.values(tags)).size, 1, 'it is never compressed')
    t.not((await get(target, other)).headers.etag, tags.plain, 'JSON and BCS differ')
    t.match(await get(target, add(how, { 'if-none-match': `"x", W/${tags.plain}` })), {
      status: 304,
      body: '',
      headers: { 'cache-control': 'no-store', vary: 'Accept, Accept-Encoding', etag: tags.plain }
    }, target)
    t.match(await get(target, add(how, { 'if-none-match': tags.plain.slice(1) })), { status: 200 }, target)
  }
  const before = await get(`${stream}?limit=1`)
  sandbox.ledger.grow()
  t.match(await get(`${stream}?limit=1`, { headers: { 'if-none-match': String(before.headers.etag) } }), {
    status: 200,
    headers: { 'x-node-ledger-version': String(sandbox.ledger.head.version) }
  })
  t.match(await get('/v1/accounts/0x9/events/0x1::a::B/c', { headers: { 'if-none-match': '*' } }), {
    status: 404,
    headers: { etag: undefined }
  }, 'an error has no tag')
})

t.test('every response to a known read has Vary and the position, whatever its outcome', async t => {
  const { sandbox, parts, get } = await proxyAtSandbox(t)
  const moving = [
    latest,
    info,
    '/v1/estimate_gas_price',
    stream,
    `${stream}?start=999`,
    `/v1/blocks/by_version/${sandbox.ledger.head.version}`,
    '/v1/accounts/0x9/modules'
  ].map((target): [string, TestRequest] => [target, {}])
  const requests: ReadonlyArray<readonly [string, TestRequest, number]> = [
    ...[...storedReads, ...storedReads, ...moving].map(([target, how]) => [target, how, 200] as const),
    ...[...storedReads, ...moving].map(([target, how]) => [target, add(how, { 'if-none-match': '*' }), 304] as const),
    ...moving.map(([target]) => [target, { method: 'HEAD' }, 200] as const),
    ['/v1/accounts/xyz/modules', {}, 400],
    [modules, { method: 'DELETE' }, 405],
    [table, {}, 405],
    [table, { body: '{}' }, 415],
    [table, add(cells, { 'content-encoding': 'gzip' }), 415],
    [table, { ...cells, body: 'x'.repeat(2000) }, 413],
    [modules, { headers: { expect: 'x' } }, 417],
    ['/v1/accounts/0x1/modules?ledger_version=99999999', {}, 404],
    ['/v1/accounts/0x1/modules?ledger_version=1', {}, 410],
    [`${stream}?start=1`, {}, 500],
    ['/v1/accounts/0x1/events/0x1::a::B/c', {}, 404],
    [modules, { method: 'OPTIONS' }, 405]
  ]
  const check = (got: TestResponse, code: number, name: string): void => {
    t.equal(got.status, code, name)
    t.equal(got.headers.vary, 'Accept, Accept-Encoding', name)
    t.same(positionNames.filter(each => got.headers[each] === undefined), [], name)
    t.equal(got.headers['x-node-ledger-version'], String(sandbox.ledger.head.version), name)
  }
  for (const [target, options, code] of requests) {
    check(await get(target, options), code, `${options.method} ${target} ${code}`)
  }
  for (const [kind, code] of [['rateLimited', 429], ['html', 503], ['reset', 503], ['garbage', 503]] as const) {
    sandbox.faults.add({ kind, times: 2 })
    for (const target of ['/v1/accounts/0x2/modules?ledger_version=2000', latest]) {
      check(await get(target), code, `${kind} ${target}`)
    }
    sandbox.faults.clear()
  }
  t.equal(parts.tracker.position?.head.version, sandbox.ledger.head.version)
})

t.test('Cache-Control is what the operator chose, for each kind of response', async t => {
  const year = 'public, max-age=31536000, immutable'
  const day = 'public, max-age=86400'
  for (const cacheControl of ['revalidate', 'immutable', 'off'] as const) {
    const proxy = await proxyAtSandbox(t, { cacheControl })
    const { get, sandbox } = proxy
    const missing = tableItemLookup('u64', '"7777777"')
    for (
      const [target, how, immutable] of [
        [table, cells, year],
        [table, add(cells, bcs.headers), year],
        [block, {}, year],
        [block, bcs, year],
        [`${block}?with_transactions=false`, {}, year],
        [fullBlock, {}, day],
        [fullBlock, bcs, day],
        [modules, {}, day],
        [modules, bcs, day],
        [page, {}, day]
      ] as const
    ) {
      const expected = { revalidate: 'no-cache', immutable, off: undefined }[cacheControl]
      const responses = [
        await get(target, how),
        await get(target, how),
        await get(target, add(how, { 'if-none-match': '*' })),
        await get(target, add(how, { 'accept-encoding': 'br' }))
      ]
      t.same(
        responses.map(({ headers }) => headers['cache-control']),
        Array(4).fill(expected),
        `${cacheControl} ${target}`
      )
    }
    const moving: ReadonlyArray<readonly [string, TestRequest]> = [
      [latest, {}],
      [latest, bcs],
      [table.replace(/\?.*/, ''), cells],
      [table.replace(/\?.*/, ''), missing],
      [info, {}],
      [info, {}],
      ['/v1/estimate_gas_price', {}],
      ['/v1/estimate_gas_price', {}],
      [stream, {}],
      [`${stream}?limit=5`, {}],
      [`${stream}?start=990`, {}],
      [`${stream}?start=300&limit=10`, bcs],
      [`/v1/blocks/by_version/${sandbox.ledger.head.version}`, {}],
      ['/v1/accounts/0x1/modules?ledger_version=1', {}],
      ['/v1/accounts/0x1/modules?ledger_version=999999', {}],
      [`${stream}?start=1`, {}],
      ['/v1/accounts/xyz/modules', {}],
      [table, {}],
      [latest, { headers: { 'if-none-match': '*' } }],
      [info, { headers: { 'if-none-match': '*' } }]
    ]
    for (const [target, options] of moving) {
      t.equal((await get(target, options)).headers['cache-control'], 'no-store', `${cacheControl} ${target}`)
    }
    sandbox.ledger.pruneTo(800)
    await proxy.parts.resolveChain()
    t.match(await get(table, cells), {
      headers: {
        [status]: 'varve; hit; detail=pruned',
        'cache-control': { revalidate: 'no-cache', immutable: year, off: undefined }[cacheControl]
      }
    })
  }
})

t.test('a cached not-found has Cache-Control, a tag and coded forms, but never gets a 304', async t => {
  const body = JSON.stringify({
    message: `Table Item not found by Table handle(0xab), Table key(${'"7"'.repeat(100)}) and Ledger version(500)`,
    error_code: 'table_item_not_found',
    vm_error_code: null
  })
  const stub = await startStubUpstream(t, (_request, response) => {
    response.writeHead(404, { 'content-type': 'application/json; charset=utf-8', ...stamps() }).end(body)
  })
  const proxy = await proxyAt(t, stub.url, { cacheControl: 'immutable' })
  const target = '/v1/tables/0xab/item?ledger_version=500'
  const { plain, gzip } = await packed(proxy, target, tableItemLookup('u64', '"7"'))
  t.not(plain, gzip)
  for (const ifNoneMatch of [plain, gzip, '*']) {
    const got = await proxy.get(
      target,
      add(tableItemLookup('u64', '"7"'), { 'accept-encoding': 'gzip', 'if-none-match': ifNoneMatch })
    )
    t.match(got, {
      status: 404,
      headers: {
        [status]: hit,
        'content-encoding': 'gzip',
        etag: gzip,
        'content-type': 'application/json; charset=utf-8',
        'cache-control': 'public, max-age=31536000, immutable',
        vary: 'Accept, Accept-Encoding',
        'x-node-ledger-version': '1000'
      }
    })
    t.equal(unpack(got).toString(), body)
  }
  t.equal(stub.requests.length, 1)
})

t.test('a response too large to buffer streams plain and untagged, whatever the client accepts', async t => {
  const body = `["${'x'.repeat(1_100_000)}"]`
  const stub = await startStubUpstream(t, (_request, response) => {
    respondOk(response, body, { 'content-length': String(body.length) })
  })
  const { get, parts } = await proxyAt(t, stub.url)
  for (const target of ['/v1/accounts/0x1/modules?ledger_version=500', latest]) {
    const got = await get(target, {
      headers: { 'accept-encoding': 'br, gzip', 'if-none-match': '*', range: 'bytes=0-0' }
    })
    t.match(got, {
      status: 200,
      headers: {
        'content-encoding': undefined,
        etag: undefined,
        'content-length': String(body.length),
        vary: 'Accept, Accept-Encoding',
        'cache-control': 'no-store',
        'accept-ranges': undefined
      }
    })
    t.ok(got.body === body)
  }
  t.equal(parts.memory.entries, 0)
})
