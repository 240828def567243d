import t, { type Test } from 'tap'
import { createServer } from 'node:https'
import { type AddressInfo, type Socket } from 'node:net'
import { join } from 'node:path'
import { NodeFailure } from '../../src/nodes/node-failure.js'
import { LedgerNode, type NodeOptions, type Question } from '../../src/nodes/node.js'
import { certificate, certificateKey } from '../support/certificate.js'
import { ok, rawNode, stamps, stubNode } from '../support/stub-node.js'

const question: Question = { endpoint: 'account_modules', method: 'GET', target: '/v1/accounts/0x1/modules', headers: { accept: 'application/json' }, isIdempotent: true }

function nodeAt (t: Test, url: string, change: Partial<NodeOptions> = {}): { node: LedgerNode, told: string[] } {
  const told: string[] = []
  const node = new LedgerNode({ name: 'n', url, headers: {}, timeoutMs: 2000, maxConcurrent: 4, caFile: null, maxGatheredBytes: 1000, now: () => performance.now(), ...change }, {
    asked: (name, endpoint, status) => told.push(`${name} ${endpoint} ${status}`)
  })
  t.teardown(async () => { await node.close() })
  return { node, told }
}

async function reasonOf (asking: Promise<unknown>): Promise<string> {
  try {
    await asking
    return 'answered'
  } catch (error) {
    return error instanceof NodeFailure ? error.reason : String(error)
  }
}

const head = (status: string, lines: string[]): string => [`HTTP/1.1 ${status}`, 'content-type: application/json', ...Object.entries(stamps()).map(line => line.join(': ')), ...lines, '', ''].join('\r\n')

t.test('a node is asked with its own headers, its path prefix, one media type and no coding, and nothing else', async t => {
  const stub = await stubNode(t, (_request, response) => { ok(response, '[]') })
  const { node, told } = nodeAt(t, `${stub.url}/key/`, { headers: { Authorization: 'Bearer secret', Accept: 'text/html' } })
  const answer = await node.ask(question)
  t.same(stub.asked, ['GET /key/v1/accounts/0x1/modules'])
  const [lines = []] = stub.headers
  const sent = Object.fromEntries(lines.flatMap((name, at) => at % 2 === 0 ? [[name.toLowerCase(), lines[at + 1]]] : []))
  t.same(Object.keys(sent).sort(), ['accept', 'accept-encoding', 'authorization', 'connection', 'host', 'user-agent'])
  t.match(sent, { accept: 'application/json', 'accept-encoding': 'identity', authorization: 'Bearer secret' })
  t.equal(answer.body.toString(), '[]')
  t.equal(answer.stamped?.position.head.version, 1000n)
  t.same(told, ['n account_modules 200'])
  t.ok(node.up)
  t.equal(node.position?.head.version, 1000n)
})

t.test('a body goes with its type and length', async t => {
  const stub = await stubNode(t, (request, response) => {
    request.setEncoding('utf8').once('data', text => { ok(response, JSON.stringify([request.headers['content-type'], request.headers['content-length'], text])) })
  })
  const answer = await nodeAt(t, stub.url).node.ask({ ...question, method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"é":1}' })
  t.same(JSON.parse(answer.body.toString()), ['application/json', '8', '{"é":1}'])
})

t.test('a node\'s errors are answers', async t => {
  const stub = await stubNode(t, (_request, response) => { response.writeHead(503).end('busy') })
  const { node, told } = nodeAt(t, stub.url)
  t.match(await node.ask(question), { status: 503, stamped: undefined })
  t.same(told, ['n account_modules 503'])
})

t.test('what comes not whole is a failure with its reason', async t => {
  const cases: [string, (socket: Socket) => void][] = [
    ['cut_short', socket => socket.end(head('200 OK', ['content-length: 10']) + '[]')],
    ['cut_short', socket => socket.end(head('200 OK', ['transfer-encoding: chunked']) + '2\r\n[]\r\n')],
    ['cut_short', socket => socket.destroy()],
    ['cut_short', socket => socket.resetAndDestroy()],
    ['garbage', socket => socket.end('this is no HTTP\r\n\r\n')],
    ['timeout', socket => socket.write('HTTP/1.1 200 OK\r\n')],
    ['timeout', socket => socket.write(head('200 OK', ['content-length: 10']) + 'x')]
  ]
  for (const [reason, answer] of cases) {
    const raw = await rawNode(t, answer)
    const { node, told } = nodeAt(t, raw.url, { timeoutMs: 200 })
    t.equal(await reasonOf(node.ask(question)), reason)
    t.equal(raw.connections(), 1, 'asked once')
    t.notOk(node.up)
    t.same(told, [`n account_modules ${reason}`])
  }
})

t.test('a node that cannot be reached is a failure with its reason', async t => {
  t.equal(await reasonOf(nodeAt(t, 'http://127.0.0.1:1').node.ask(question)), 'refused')
  t.equal(await reasonOf(nodeAt(t, 'http://nowhere.invalid').node.ask(question)), 'unreachable')
})

t.test('reads beyond what a node can take soon are refused at once, so that those who wait are bounded', async t => {
  const stub = await stubNode(t, () => {})
  const { node, told } = nodeAt(t, stub.url, { maxConcurrent: 1 })
  const waiting = Array.from({ length: 8 }, async () => await reasonOf(node.ask(question)))
  t.equal(await reasonOf(node.ask(question)), 'busy')
  t.same(told, ['n account_modules busy'])
  await node.close()
  t.notOk((await Promise.all(waiting)).includes('answered'), 'and giving up the node lets go of everybody who waits')
})

t.test('a node is up when it answers as a node does: an error of its own counts, one that bears no position does not', async t => {
  let answer: Parameters<typeof stubNode>[1] = (_request, response) => { response.writeHead(503).end('busy') }
  const stub = await stubNode(t, (request, response, nth) => { answer(request, response, nth) })
  const { node } = nodeAt(t, stub.url)
  await node.ask(question)
  t.notOk(node.up, 'a gateway that says 503')
  answer = (_request, response) => { response.writeHead(500, stamps()).end() }
  await node.ask(question)
  t.ok(node.up, 'a node that says 500')
  answer = (_request, response) => { response.writeHead(400).end() }
  await node.ask(question)
  t.ok(node.up, 'a framework error bears no position')
})

t.test('an answer tells whether its end was marked', async t => {
  const framed = async (lines: string[], body: string): Promise<boolean> => {
    const raw = await rawNode(t, socket => { socket.end(head('200 OK', lines) + body) })
    return (await nodeAt(t, raw.url).node.ask(question)).isFramed
  }
  t.equal(await framed(['content-length: 2'], '[]'), true)
  t.equal(await framed(['transfer-encoding: chunked'], '2\r\n[]\r\n0\r\n\r\n'), true)
  t.equal(await framed([], '[{"bytecode":"0x12'), false, 'ended by its connection')
})

t.test('a kept connection that dies under a read costs one fresh try and no error', async t => {
  const raw = await rawNode(t, (socket, nth) => {
    socket.write(head('200 OK', ['content-length: 1']) + String(nth))
    socket.once('data', () => { socket.end() })
  })
  const { node } = nodeAt(t, raw.url, { maxConcurrent: 1 })
  t.equal((await node.ask(question)).body.toString(), '1')
  t.equal((await node.ask(question)).body.toString(), '2')
  t.equal(raw.connections(), 2)
})

t.test('an answer bears the release that was running before it was asked for', async t => {
  const stub = await stubNode(t, (_request, response) => {
    node.runs('new')
    ok(response, '[]')
  })
  const { node } = nodeAt(t, stub.url)
  t.equal((await node.ask(question)).release, undefined)
  t.equal(node.release, 'new')
})

t.test('a certificate that nobody vouches for is refused, one that the CA file vouches for is taken', async t => {
  const server = createServer({ cert: certificate, key: certificateKey }, (_request, response) => { ok(response, '[]') })
  await new Promise<void>(resolve => { server.listen(0, '127.0.0.1', resolve) })
  t.teardown(() => { server.close() })
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
  t.equal(await reasonOf(nodeAt(t, url).node.ask(question)), 'unreachable')
  const caFile = join(t.testdir({ 'ca.pem': certificate }), 'ca.pem')
  t.equal((await nodeAt(t, url, { caFile }).node.ask(question)).status, 200)
  t.throws(() => nodeAt(t, url, { caFile: 'no-such-file.pem' }), { code: 'ENOENT' })
})
