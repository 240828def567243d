import { createHook } from 'node:async_hooks'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { readdirSync } from 'node:fs'
import { Agent, type Server } from 'node:http'
import { type Socket } from 'node:net'
import t from 'tap'
import { type Config, configSchema } from '../../src/config/schema.js'
import { until } from '../support/until.js'
import { varveAtSandbox } from '../support/varve.js'

const modules = '/v1/accounts/0x1/modules?ledger_version=2000&limit=1'

t.test('a rejected reload changes nothing: following, upstreams, routes and metrics go on', async t => {
  const { varve, sandbox } = await varveAtSandbox(t, { blocks: 1030 }, { follow: { mode: 'on' } })
  const { config } = varve
  const latest = async (): Promise<unknown> => (await varve.get('/v1/accounts/0x1/module/coin')).headers['cache-status']
  await until(async () => /hit; detail=followed/.test(String(await latest())), 'it follows')
  const [upstream] = config.upstreams
  const clients = configSchema.parse({ clients: { keys: [{ name: 'new', key: 'k'.repeat(32) }] } }).clients
  const wrong = { ...config, clients, follow: { ...config.follow, maxAgeMs: 500 }, passThrough: 'none' as const }
  await t.rejects(
    varve.reload({ ...wrong, upstreams: [{ ...upstream, caFile: '/nowhere' }] } as Config),
    { code: 'ENOENT' }
  )
  t.notMatch(await varve.metrics.text(), /client="new"/)
  sandbox.requests.reset()
  t.match(await latest(), /hit; detail=followed/)
  t.match(await varve.get('/v1/spec.json'), { status: 200 })
  t.match(await varve.status(), { level: 'green', follow: { state: 'following' } })
  await varve.reload({ ...config, clients })
  t.match(await varve.metrics.text(), /varve_client_requests_total\{client="new",outcome="hit_memory"\} 0/)
})

t.test('200 reloads cut no connection and leave no listener, timer or file descriptor', async t => {
  const { varve, sandbox } = await varveAtSandbox(t, {}, { follow: { mode: 'on' } })
  const { config } = varve
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const timers = new Set<number>()
  const hook = createHook({
    init: (id, type) => {
      // A signal with a time limit ends by itself.
      const isSignal = type === 'Timeout' && new Error().stack?.includes('AbortSignal.timeout') === true
      if (type === 'Timeout' && !isSignal) timers.add(id)
    },
    destroy: id => timers.delete(id)
  }).enable()
  let server: Server | undefined
  const sockets = new Set<unknown>()
  const onRequest = (message: unknown): void => {
    const request = message as { readonly server: Server, readonly socket: Socket }
    if (request.socket.localPort !== Number(new URL(varve.url).port)) return
    server = request.server
    sockets.add(request.socket)
  }
  subscribe('http.server.request.start', onRequest)
  t.teardown(() => {
    hook.disable()
    unsubscribe('http.server.request.start', onRequest)
    agent.destroy()
  })
  const reload = async (nth: number): Promise<void> => {
    const [reading] = await Promise.all([
      varve.get(modules, { agent }),
      varve.reload({
        ...config,
        // Another name is another upstream, whose connections are its own.
        upstreams: config.upstreams.map(upstream => ({ ...upstream, name: `node-${nth % 3}`, url: sandbox.url })),
        follow: { ...config.follow, maxAgeMs: 250 + nth % 2 },
        limits: { ...config.limits, headerKb: 16 + nth % 2 }
      })
    ])
    t.equal(reading.status, 200)
  }
  const listeners = (): unknown => server?.eventNames().map(name => [String(name), server?.listenerCount(name)])
  const descriptors = (): number => readdirSync('/proc/self/fd').length
  for (let nth = 0; nth < 9; nth++) await reload(nth)
  const before = { listeners: listeners(), descriptors: descriptors(), timers: timers.size }
  for (let nth = 0; nth < 200; nth++) await reload(nth)
  t.same([sockets.size, listeners()], [1, before.listeners])
  await until(
    async () => timers.size <= before.timers && descriptors() <= before.descriptors,
    'timers and file descriptors are given back'
  )
})
