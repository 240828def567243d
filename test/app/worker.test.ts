import { pino } from 'pino'
import t, { type Test } from 'tap'
import { runWorker, PrimaryChannel } from '../../src/app/worker.js'
import { configSchema } from '../../src/config/schema.js'
import { type ToPrimary, type ToWorker } from '../../src/workers/messages.js'
import { sendRequest } from '../support/client.js'
import { startSandboxNode } from '../support/replicas.js'
import { until } from '../support/until.js'

type Answered = Extract<ToPrimary, { kind: 'query_result' }>

/** Runs a worker in this process with the test as its primary, which polls the upstream on request. */
async function worker (
  t: Test,
  nodeUrl: string,
  listen = '127.0.0.1:0'
): Promise<
  {
    line: PrimaryChannel,
    said: ToPrimary[],
    url: () => string,
    ended: Promise<void>,
    asks: (asked: Extract<ToWorker, { kind: 'query' }>['query']) => Promise<Answered['result']>
  }
> {
  const said: ToPrimary[] = []
  let asked = 0
  const line = new PrimaryChannel((message, onSent) => {
    onSent?.()
    said.push(message)
    if (message.kind !== 'poll') return
    fetch(nodeUrl + message.target).then(async answer => {
      line.onMessage({
        kind: 'poll_result',
        upstream: message.upstream,
        target: message.target,
        result: {
          status: answer.status,
          headers: Object.fromEntries(answer.headers),
          body: Buffer.from(await answer.arrayBuffer())
        }
      })
    }, () => {
      line.onMessage({
        kind: 'poll_result',
        upstream: message.upstream,
        target: message.target,
        result: { failure: 'refused' }
      })
    })
  })
  const config = configSchema.parse({ listen, upstreams: [{ name: 'node', url: nodeUrl }], head: { pollMs: 600_000 } })
  line.onMessage({ kind: 'start', config, sandboxUrl: undefined, resetCount: 3 })
  const ended = line.serve(await line.started, pino({ level: 'silent' }))
  t.teardown(async () => {
    line.onMessage({ kind: 'stop', deadlines: { drainMs: 0 } })
    await ended.catch(() => {})
  })
  return {
    line,
    said,
    ended,
    url: () => said.flatMap(message => message.kind === 'listening' ? [message.url] : []).join(),
    asks: async query => {
      const id = ++asked
      line.onMessage({ kind: 'query', id, query })
      const answer = (): Answered | undefined =>
        said.find((message): message is Answered => message.kind === 'query_result' && message.id === id)
      await until(() => answer() !== undefined, 'it has answered')
      return answer()?.result ?? { error: 'nothing' }
    }
  }
}

const target = '/v1/accounts/0x1/modules?ledger_version=2000&limit=1'

t.test('a worker listens, gets poll results from the primary, and reports heads and metrics', async t => {
  const node = await startSandboxNode(t, { prunedBlocks: 0 })
  const { line, said, url, asks, ended } = await worker(t, node.url)
  await until(() => said.some(({ kind }) => kind === 'ready'), 'it is ready')
  t.equal(node.requests.countFor('index'), 1)
  t.match(await sendRequest(url(), target), { status: 200 })
  node.ledger.grow(3)
  await sendRequest(url(), '/v1/accounts/0x1/modules?limit=1')
  const heads = said.flatMap(message => message.kind === 'head' ? [message] : [])
  t.match(heads.at(-1), { resetCount: 3, stamped: { position: { head: { version: node.ledger.head.version } } } })
  t.match(await asks({ kind: 'status' }), {
    value: { ready: true, pid: process.pid, upstreams: [{ name: 'node', state: 'up' }] }
  })
  t.match(await asks({ kind: 'metrics' }), { value: [{ name: String, values: Array }] })
  t.match(await asks({ kind: 'purge', body: Buffer.from(JSON.stringify({ method: 'GET', url: target })) }), {
    value: { everywhere: true }
  })
  t.match((await sendRequest(url(), target)).headers, { 'cache-status': /uri-miss/ })
  t.match(await asks({ kind: 'purge_locally', body: Buffer.from(JSON.stringify({ method: 'GET', url: target })) }), {
    value: undefined
  })
  t.match((await sendRequest(url(), target)).headers, { 'cache-status': /uri-miss/ })
  t.match(await asks({ kind: 'purge_locally', body: Buffer.from('{"all":true}') }), { value: undefined })
  t.match((await sendRequest(url(), target)).headers, { 'cache-status': /uri-miss/ })
  t.match(await asks({ kind: 'purge', body: Buffer.from('{}') }), {
    errorResponse: { status: 400, code: 'invalid_input' }
  })
  line.onMessage({ kind: 'stop', deadlines: { drainMs: 0 } })
  await ended
  t.match(said.at(-1), { kind: 'final_report', metrics: Array }, 'the final metrics come last')
})

t.test('a worker serves a head from another worker of its chain, and polls after a reset', async t => {
  const node = await startSandboxNode(t, { prunedBlocks: 0 })
  const { line, said, url } = await worker(t, node.url)
  await until(() => said.some(({ kind }) => kind === 'ready'), 'it is ready')
  const shown = async (): Promise<unknown> => (await sendRequest(url(), target)).headers['x-node-ledger-version']
  node.ledger.grow(1)
  await sendRequest(url(), '/v1/accounts/0x1/modules?limit=1')
  const [head] = said.flatMap(message => message.kind === 'head' ? [message.stamped] : [])
  t.ok(head)
  if (head === undefined) return
  const later = (by: bigint): typeof head => ({
    ...head,
    position: {
      ...head.position,
      head: {
        ...head.position.head,
        version: head.position.head.version + by,
        timestampUsec: head.position.head.timestampUsec + by
      }
    }
  })
  line.onMessage({ kind: 'head', resetCount: 4, stamped: later(9n) })
  t.equal(await shown(), String(node.ledger.head.version))
  line.onMessage({ kind: 'head', resetCount: 3, stamped: later(7n) })
  t.equal(await shown(), String(node.ledger.head.version + 7n))
  const polls = (): number => said.filter(({ kind }) => kind === 'poll').length
  const before = polls()
  line.onMessage({ kind: 'chain_reset', resetCount: 3 })
  t.equal(polls(), before, 'it has seen this reset')
  line.onMessage({ kind: 'chain_reset', resetCount: 4 })
  t.equal(polls(), before + 1)
  node.ledger.grow(2)
  // Sends a poll result that the worker did not request.
  const index = await fetch(`${node.url}/v1`)
  line.onMessage({
    kind: 'poll_result',
    upstream: 'node',
    target: '/v1',
    result: { status: 200, headers: Object.fromEntries(index.headers), body: Buffer.from(await index.arrayBuffer()) }
  })
  await until(async () => await shown() === String(node.ledger.head.version), 'it is taken in')
})

t.test('a worker that cannot listen reports the error and ends', async t => {
  const node = await startSandboxNode(t, { prunedBlocks: 0 })
  const { ended } = await worker(t, node.url, new URL(node.url).host)
  await t.rejects(ended, { message: /^cannot listen on .* \(listen\): .*EADDRINUSE/ })
})

t.test('a worker that has not started reports so to a query', async t => {
  const said: ToPrimary[] = []
  new PrimaryChannel(message => {
    said.push(message)
  }).onMessage({ kind: 'query', id: 1, query: { kind: 'status' } })
  await until(() => said.length === 1, 'it has answered')
  t.match(said, [{ kind: 'query_result', id: 1, result: { error: 'the worker has not started yet' } }])
})

t.test('a worker cannot be started from the command line', async t => {
  await t.rejects(
    runWorker({
      environment: {},
      in: () => process.stdin,
      out: () => {},
      err: () => {},
      isTerminal: false,
      hasLostTerminal: () => false,
      onSignal: () => {},
      onFault: () => {},
      exit: () => {},
      bufferedBytes: () => 0,
      program: { file: '', flags: [] }
    }),
    { message: 'unknown command worker' }
  )
})
