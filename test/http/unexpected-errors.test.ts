import { Agent } from 'node:http'
import { fastify } from 'fastify'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { Metrics } from '../../src/metrics/metrics.js'
import { adminApp } from '../../src/http/admin-app.js'
import { headerTimeouts, serverTimeouts } from '../../src/http/listener.js'
import { publicApp } from '../../src/http/public-app.js'
import { type ListenerContext, type ProxyParts, reportUnexpectedError } from '../../src/http/send-response.js'
import { certificate, certificateKey } from '../support/certificate.js'
import { type TestRequest, sendRequest } from '../support/client.js'
import { contextAt, listenerContextOf } from '../support/proxy-context.js'
import { startEmptyUpstream } from '../support/stub-upstream.js'

const modules = '/v1/accounts/0x1/modules?ledger_version=500'
const traceId = '0af7651916cd43dd8448eb211c80319c'

/** Lists all that a server is set to, by public and private names. */
function settingsOf (server: object): Record<string, unknown> {
  const all = Reflect.ownKeys(server).map(name => [String(name), Reflect.get(server, name) as unknown] as const)
  return Object.fromEntries(
    all.filter(([name, value]) => name !== '_eventsCount' && typeof value !== 'object' && typeof value !== 'function')
  )
}

t.test('the server has each setting that Fastify would give it, and a reload adds no listener', async t => {
  const stub = await startEmptyUpstream(t)
  const context = listenerContextOf(contextAt(t, stub.url).context)
  const identity = { cert: certificate, key: certificateKey }
  const http = { requireHostHeader: false, ...headerTimeouts, maxHeaderSize: 16 * 1024 }
  const options = { ...serverTimeouts, forceCloseConnections: 'idle' } as const
  const plain = fastify({ ...options, http })
  const secure = fastify({ ...options, https: { ...http, ...identity, handshakeTimeout: 5000 } })
  const withCertificate = { ...context, certificate: { identity, watch: () => {} } as never }
  for (const [own, { server }] of [[context, plain], [withCertificate, secure]] as const) {
    const { app, reload } = publicApp(own)
    t.teardown(async () => await app.close())
    t.same(settingsOf(app.server), settingsOf(Object.assign(server, { maxHeadersCount: 1000 })))
    const countAll = (): unknown =>
      app.server.eventNames().map(event => [String(event), app.server.listenerCount(event)])
    const before = countAll()
    t.ok(app.server.listenerCount('clientError') === 1)
    for (let times = 0; times < 20; times++) (await reload(context))()
    t.same(countAll(), before)
  }
})

const boom = (): never => {
  throw new TypeError('unforeseen failure')
}

type Change = (whole: ListenerContext, parts: ProxyParts) => ListenerContext

/** Starts a public listener with one broken part; counts what it logs and reports. */
async function broken (t: Test, change: Change) {
  const stub = await startEmptyUpstream(t)
  const { context } = contextAt(t, stub.url)
  const log: string[] = []
  const metrics = new Metrics()
  const { app } = publicApp(
    change(listenerContextOf(context, { metrics, log: pino({}, { write: line => log.push(line) }) }), context)
  )
  t.teardown(async () => await app.close())
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  const unforeseen = (): number => log.filter(line => /"level":50.*TypeError.*unforeseen failure/.test(line)).length
  return {
    url,
    unforeseen,
    lastLine: () => JSON.parse(log.at(-1) ?? '{}') as object,
    get: async (target: string, options: TestRequest = {}) => await sendRequest(url, target, { agent, ...options }),
    counted: async () => Number(/^varve_unhandled_total\{kind="request"\} (\d+)$/m.exec(await metrics.text())?.[1])
  }
}

/** Wraps an object so that one method throws. */
function throwing<T extends object> (whole: T, method: keyof T, isBroken = (): boolean => true): T {
  return new Proxy(whole, {
    get: (at, name) => {
      if (name === method && isBroken()) return boom
      const value: unknown = Reflect.get(at, name, at)
      return typeof value === 'function' ? value.bind(at) as unknown : value
    }
  })
}

t.test('an error in any stage is a 500, a log line and a count, and the connection goes on', async t => {
  const inProxy = (change: (parts: ProxyParts) => Partial<ProxyParts>): Change => (whole, parts) => ({
    ...whole,
    proxy: { ...parts, ...change(parts) }
  })
  const inBuilder = (method: keyof ListenerContext['responseBuilder']): Change => whole => ({
    ...whole,
    responseBuilder: throwing(whole.responseBuilder, method)
  })
  const spec = '/v1/spec.json'
  const stages: Array<[stage: string, change: Change, target: string, options?: TestRequest]> = [
    ['an upstream is ranked', inProxy(() => ({ resolveChain: async () => boom() })), modules],
    ['memory is looked up', inProxy(({ memory }) => ({ memory: throwing(memory, 'getByKeys') })), modules],
    ['the response is stamped', inBuilder('respond'), modules],
    ['a forwarded response is stamped', inBuilder('respondForwarded'), spec],
    ['a request is forwarded', inProxy(({ upstreamPool: at }) => ({ upstreamPool: throwing(at, 'fetch') })), spec],
    ['a browser sends a preflight', whole => ({ ...whole, cors: throwing(whole.cors, 'preflight') }), modules, {
      method: 'OPTIONS',
      headers: { origin: 'http://a' }
    }]
  ]
  for (const [stage, change, target, options] of stages) {
    const { get, unforeseen, counted, lastLine } = await broken(t, change)
    for (let round = 1; round <= 2; round++) {
      const got = await get(target, options)
      t.match(got, {
        status: 500,
        headers: { connection: 'keep-alive' },
        body: '{"message":"internal error","error_code":"internal_error","vm_error_code":null}'
      }, stage)
      t.same([unforeseen(), await counted()], [round, round], stage)
    }
    await get(target, {
      ...options,
      headers: { ...options?.headers, traceparent: `00-${traceId}-b7ad6b7169203331-01` }
    })
    t.match(lastLine(), { id: /^req-/, traceId }, `${stage}: the line names the request and its trace`)
  }
})

t.test('if even the error response fails, the connection is closed, so no client waits forever', async t => {
  const { get, unforeseen } = await broken(
    t,
    whole => ({ ...whole, responseBuilder: throwing(throwing(whole.responseBuilder, 'respond'), 'respondWithError') })
  )
  await t.rejects(get(modules), { code: 'ECONNRESET' })
  t.equal(unforeseen(), 2)
})

t.test('an error after a response was written does not affect the response', async t => {
  let isBroken = false
  const { get, unforeseen } = await broken(
    t,
    whole => ({ ...whole, metrics: throwing(whole.metrics, 'answered', () => isBroken) })
  )
  t.match(await get(modules), { status: 200 })
  t.match(await get(modules), { status: 200 })
  isBroken = true
  t.match(await get(modules), { status: 200, body: '[]' }, 'on the fast path')
  t.match(await get('/v1/accounts/0x1/modules?ledger_version=501'), { status: 200, body: '[]' }, 'behind the router')
  t.equal(unforeseen(), 2)
})

t.test('an admin request that fails receives 500, and the log has the reason', async t => {
  const log: string[] = []
  const metrics = new Metrics()
  const app = adminApp({
    metrics,
    status: boom,
    config: boom,
    purgeRoute: { token: () => null, purge: boom },
    setCordoned: boom,
    reload: boom,
    onUnexpectedError: error => {
      reportUnexpectedError({ log: pino({}, { write: line => log.push(line) }), metrics }, error)
    }
  })
  t.teardown(async () => await app.close())
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  t.match(await sendRequest(url, '/readyz'), { status: 500, body: /"internal_error"/ })
  t.match(await sendRequest(url, '/nowhere'), { status: 404 })
  t.equal(log.length, 1)
  t.match((await sendRequest(url, '/metrics')).body, /^varve_unhandled_total\{kind="request"\} 1$/m)
})
