import { createServer, request, type IncomingMessage } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { loadConfig } from '../../src/config/load.js'
import { type UpstreamFailure } from '../../src/upstreams/upstream-failure.js'
import { certificate, certificateKey } from '../support/certificate.js'
import { sendRequest } from '../support/client.js'
import { startSandboxNode } from '../support/replicas.js'
import { listening, respondOk } from '../support/stub-upstream.js'
import { upstreamAt } from '../support/upstream.js'
import { varveAt } from '../support/varve.js'

const modules = '/v1/accounts/0x1/modules?ledger_version=2000&limit=1'

/** Starts a proxy that leads every request to one port; it records what it was asked for. */
async function startProxy (t: Test, port: number): Promise<{ url: string, asked: string[] }> {
  const asked: string[] = []
  const record = ({ method, url, headers }: IncomingMessage): void => {
    asked.push(`${method} ${url} ${headers['proxy-authorization'] ?? '-'}`)
  }
  const server = createServer((received, response) => {
    record(received)
    const { pathname, search } = new URL(String(received.url))
    request({ port, path: pathname + search, method: received.method, headers: received.headers }, answer => {
      response.writeHead(answer.statusCode ?? 0, answer.rawHeaders)
      answer.pipe(response)
    }).end()
  }).on('connect', (received: IncomingMessage, client: Socket) => {
    record(received)
    const tunnel = connect(port, '127.0.0.1', () => {
      client.write('HTTP/1.1 200 OK\r\n\r\n')
      tunnel.pipe(client).pipe(tunnel)
    }).on('error', () => {})
  })
  return { url: new URL(await listening(t, server)).host, asked }
}

function setVariables (t: Test, variables: Record<string, string>): void {
  const before = { ...process.env }
  Object.assign(process.env, variables)
  t.teardown(() => {
    for (const name of Object.keys(variables)) {
      if (before[name] === undefined) Reflect.deleteProperty(process.env, name)
      else process.env[name] = before[name]
    }
  })
}

t.test('HTTP_PROXY gets the requests to upstreams of other machines, with its own credentials', async t => {
  const [remote, local] = [await startSandboxNode(t, { prunedBlocks: 0 }), await startSandboxNode(t, { seed: 1 })]
  const proxy = await startProxy(t, Number(new URL(remote.url).port))
  setVariables(t, { HTTP_PROXY: `http://user:p%40ss@${proxy.url}`, NO_PROXY: 'exempt.invalid' })
  const varve = await varveAt(t, '', {
    upstreams: [{ name: 'remote', url: 'http://node.invalid:8080', timeoutMs: 5000, proxy: true }] as never
  })
  t.match(await varve.get(modules), { status: 200 })
  const credentials = `Basic ${Buffer.from('user:p@ss').toString('base64')}`
  t.ok(proxy.asked.includes(`GET http://node.invalid:8080/v1 ${credentials}`))
  t.ok(proxy.asked.some(line => line.startsWith('GET http://node.invalid:8080/v1/accounts/')))
  t.equal(remote.requests.countFor('account_modules'), 1)
  const other = await varveAt(t, local.url, {})
  t.match(await other.get(modules), { status: 200 }, 'an upstream on this machine needs no proxy')
  const exempt = await varveAt(t, 'http://exempt.invalid:8080', { upstream: { timeoutMs: 2000, proxy: true } })
  t.match(await exempt.get(modules), { status: 503 })
  t.match((await sendRequest(exempt.adminUrl, '/readyz')).body, /DNS lookup of exempt\.invalid failed/)
  // The first varve goes on to poll through the proxy.
  t.same(proxy.asked.filter(line => !line.startsWith('GET http://node.invalid:8080/')), [])
})

t.test('an https upstream is reached through a tunnel, and its certificate is checked', async t => {
  const upstream = createTlsServer({ cert: certificate, key: certificateKey }, (_request, response) => {
    respondOk(response, '[]')
  })
  const port = Number(new URL(await listening(t, upstream)).port)
  const proxy = await startProxy(t, port)
  setVariables(t, { HTTPS_PROXY: `http://${proxy.url}` })
  const caFile = join(t.testdir({ 'ca.pem': certificate }), 'ca.pem')
  const fetchWith = async (file: string | null): Promise<number> => {
    const node = upstreamAt(t, `https://127.0.0.1:${port}`, { timeoutMs: 5000, caFile: file, proxy: true })
    const request = { endpoint: 'info', method: 'GET', target: '/v1/info', headers: {}, body: undefined }
    return (await node.send({ ...request, isIdempotent: true })).status
  }
  t.equal(await fetchWith(caFile), 200)
  t.same(proxy.asked, [`CONNECT 127.0.0.1:${port} -`])
  const failure = await fetchWith(null).catch((error: unknown) => error as UpstreamFailure)
  t.match(failure, { description: /^TLS error: DEPTH_ZERO_SELF_SIGNED_CERT/ })
})

t.test('a proxy that is down is the reason why its upstream is down', async t => {
  setVariables(t, { http_proxy: 'http://127.0.0.1:1' })
  const varve = await varveAt(t, 'http://node.invalid', { upstream: { timeoutMs: 2000, proxy: true } })
  t.match(await varve.get(modules), { status: 503 })
  t.match((await sendRequest(varve.adminUrl, '/readyz')).body, /node.*refused/)
})

t.test('the variables of the scheme decide, in either case, and never for this machine', async t => {
  const proxy = { HTTP_PROXY: 'http://p' }
  const cases: Array<[url: string, environment: Record<string, string>, expected: boolean]> = [
    ['http://node.example', {}, false],
    ['http://node.example', { HTTP_PROXY: '' }, false],
    ['http://node.example', proxy, true],
    ['https://node.example', proxy, true],
    ['http://node.example', { https_proxy: 'http://p' }, false],
    ['https://node.example', { https_proxy: 'http://p' }, true],
    ['http://127.0.0.1:8080', proxy, false],
    ['http://localhost', proxy, false],
    ['http://[::1]', proxy, false]
  ]
  for (const [url, environment, expected] of cases) {
    t.equal(loadConfig(environment, { upstream: [url] }).config.upstreams[0]?.proxy, expected, url)
  }
})
