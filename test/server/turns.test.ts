import { once } from 'node:events'
import { type ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { BodyTurns } from '../../src/server/turns.js'
import { ask } from '../support/client.js'
import { hurryClients } from '../support/hurried.js'
import { sendRaw, statusesIn } from '../support/raw.js'
import { ok, stamps, stubNode } from '../support/stub-node.js'
import { varveAt } from '../support/varve.js'

const mega = 1024 * 1024
const modules = '/v1/accounts/0x1/modules?ledger_version=500'
const get = (target: string): string => `GET ${target} HTTP/1.1\r\nHost: x\r\n\r\n`

/** A client that sends what it is given and reads nothing. */
async function deafClient (t: Test, url: string, text: string): Promise<Socket> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => {}).pause()
  t.teardown(() => socket.destroy())
  await once(socket, 'connect')
  socket.write(text)
  return socket
}

t.test('a client that sends many requests ahead holds one connection of the node at a time, and none once it has left', async t => {
  const open = new Set<ServerResponse>()
  let most = 0
  let arrived: () => void = () => {}
  let emptied: () => void = () => {}
  const stub = await stubNode(t, (_request, response) => {
    open.add(response)
    most = Math.max(most, open.size)
    response.on('close', () => { open.delete(response); if (open.size === 0) emptied() })
    response.writeHead(200, { 'content-type': 'application/json', ...stamps(), 'content-length': String(64 * mega) })
    const pour = (): void => { while (response.write(Buffer.alloc(mega))); }
    response.on('drain', pour)
    pour()
    arrived()
  })
  const varve = await varveAt(t, stub.url, { cache: { maxEntryMb: 1 }, upstream: { maxConcurrent: 2, timeoutMs: 60_000 } })
  for (const target of [modules, '/v1/accounts/0x1']) {
    const here = new Promise<void>(resolve => { arrived = resolve })
    const left = new Promise<void>(resolve => { emptied = resolve })
    const client = await deafClient(t, varve.url, get(target).repeat(50))
    await here
    client.destroy()
    await left
  }
  t.equal(most, 1)
  t.match(await ask(varve.url, '/v1'), { status: 200 }, 'and the node is free for others')
})

t.test('requests sent ahead are answered in their order, each as it would be alone', async t => {
  const stub = await stubNode(t, (request, response) => { ok(response, JSON.stringify(request.url?.slice(0, 20))) })
  const varve = await varveAt(t, stub.url)
  const targets = [modules, '/v1/spec', modules, '/nowhere', '/v1/accounts/0X1/modules', modules]
  const text = await sendRaw(varve.url, targets.map(get).join(''), so => statusesIn(so).length === targets.length)
  t.same(statusesIn(text), [200, 200, 200, 404, 400, 200])
  t.equal(stub.asked.length, 2)
})

t.test('a client that sends ahead without end is cut off', async t => {
  let arrived: () => void = () => {}
  const here = new Promise<void>(resolve => { arrived = resolve })
  const stub = await stubNode(t, () => { arrived() })
  const varve = await varveAt(t, stub.url, { upstream: { timeoutMs: 60_000 } })
  const client = await deafClient(t, varve.url, get(modules))
  await here
  const closed = once(client.resume(), 'close')
  client.write(get(modules).repeat(400))
  await closed
  t.equal(stub.asked.length, 1)
  t.equal(await varve.metric('varve_connections_cut_total{reason="ahead"}'), 1)
})

t.test('a client that reads nothing of a long kept answer is cut off like any that stalls', async t => {
  hurryClients(t)
  const stub = await stubNode(t, (_request, response) => { ok(response, 'x'.repeat(7 * mega)) })
  const varve = await varveAt(t, stub.url)
  await varve.get(modules)
  const client = await deafClient(t, varve.url, get(modules).repeat(4))
  // What the system's own buffers hold is read only now: had varve waited, all four answers would come.
  await new Promise(resolve => { setTimeout(resolve, 1000) })
  let size = 0
  // Who is cut off sees a reset, or an end where it has not read that far.
  client.on('error', () => {}).on('data', (chunk: Buffer) => { size += chunk.length }).resume()
  await new Promise<void>(resolve => { client.once('close', resolve) })
  t.ok(size < 4 * 7 * mega, String(size))
})

t.test('a read that waits for a connection fails within the node\'s time-out too, and leaves its place to others', async t => {
  const stub = await stubNode(t, (request, response) => { if (request.url?.includes('500') === true) { response.writeHead(200, { 'content-type': 'application/json', ...stamps(), 'content-length': String(64 * mega) }); response.write(Buffer.alloc(4 * mega)) } else ok(response, '[]') })
  const varve = await varveAt(t, stub.url, { cache: { maxEntryMb: 1 }, upstream: { maxConcurrent: 1, timeoutMs: 300 } })
  const client = await deafClient(t, varve.url, get(modules))
  while (stub.asked.length === 0) await new Promise(resolve => { setImmediate(resolve) })
  const started = performance.now()
  const waiting = await Promise.all(Array.from({ length: 5 }, async (_, at) => await varve.get(`/v1/accounts/0x${at + 2}/modules?ledger_version=600`)))
  t.same(waiting.map(({ status }) => status), Array(5).fill(503))
  t.ok(performance.now() - started < 5000)
  client.destroy()
  let got = await varve.get('/v1/accounts/0x1/modules?ledger_version=600')
  for (let tries = 0; got.status === 503 && tries < 20; tries++) got = await varve.get('/v1/accounts/0x1/modules?ledger_version=600')
  t.equal(got.status, 200)
})

t.test('a bodiless answer of the node on a passed route is one here, whatever it says of a length', async t => {
  for (const code of [204, 304]) {
    const stub = await stubNode(t, (_request, response) => { response.writeHead(code, code === 304 ? { 'content-length': '5' } : {}).end() })
    const varve = await varveAt(t, stub.url)
    const text = await sendRaw(varve.url, get('/v1/spec') + get('/v1/accounts/0X1/modules'), so => statusesIn(so).length === 2)
    t.same(statusesIn(text), [code, 400])
  }
})

t.test('a 410 on a passed route is counted, and an answer of another kind is not', async t => {
  const stub = await stubNode(t, (request, response) => { response.writeHead(request.url === '/v1/gone' ? 410 : 404, { 'content-type': 'application/json', ...stamps() }).end('{}') })
  const varve = await varveAt(t, stub.url)
  for (const target of ['/v1/gone', '/v1/nowhere']) await varve.get(target)
  t.equal(await varve.metric('varve_pruned_requests_total{endpoint="other",answer="upstream"}'), 1)
})

t.test('where only some origins may read, every answer says that it varies by them, or a shared cache would mix them up', async t => {
  const stub = await stubNode(t, (_request, response) => { ok(response, '[]') })
  const varve = await varveAt(t, stub.url, { cors: { origins: ['https://a.example'] } })
  for (const headers of [{}, { origin: 'https://b.example' }, { origin: 'https://a.example' }] as Array<Record<string, string>>) {
    const got = await varve.get(modules, { headers })
    t.match(got.headers.vary, /Origin/)
    t.equal(got.headers['access-control-allow-origin'], headers['origin'] === 'https://a.example' ? 'https://a.example' : undefined)
  }
})

const response = (change: { destroyed?: boolean } = {}): ServerResponse => ({ destroyed: false, ...change }) as ServerResponse
const nextTurn = async (): Promise<void> => { await new Promise(resolve => { setImmediate(resolve) }) }

t.test('large bodies are parsed in turns of the event loop, 256 KiB or one body in each, in their order', async t => {
  const turns = new BodyTurns()
  const done: string[] = []
  const gone = { destroyed: false }
  const leaving = Object.assign(response(), gone)
  for (const [name, kib, to] of [['a', 1024, response()], ['b', 100, response()], ['gone', 1024, leaving], ['c', 156, response()], ['d', 20, response()]] as const) {
    turns.take(kib * 1024, to).then(() => { done.push(name) }, t.fail)
  }
  t.same(done, [], 'not in the turn that they came in')
  Object.assign(leaving, { destroyed: true })
  for (const expected of [['a'], ['a', 'b', 'c'], ['a', 'b', 'c', 'd'], ['a', 'b', 'c', 'd']]) {
    await nextTurn()
    t.same(done, expected)
  }
  await turns.take(1, response())
})

t.test('at most 64 MiB of bodies wait for their turn, the rest is told to retry', async t => {
  const turns = new BodyTurns()
  const waiting = Array.from({ length: 64 }, async () => { await turns.take(1024 * 1024, response()) })
  await t.rejects(turns.take(20_000, response()), { message: /overloaded/ })
  await waiting[0]
  await turns.take(20_000, response())
  await Promise.all(waiting)
})
