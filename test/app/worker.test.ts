import { pino } from 'pino'
import t, { type Test } from 'tap'
import { runWorker, PrimaryChannel } from '../../src/app/worker.js'
import { configSchema } from '../../src/config/schema.js'
import { type ToPrimary, type ToWorker } from '../../src/workers/messages.js'
import { sendRequest } from '../support/client.js'
import { startSandboxNode } from '../support/replicas.js'
import { until } from '../support/until.js'

type QueryResult = Extract<ToPrimary, { kind: 'query_result' }>

/** Runs a worker in this process with the test as its primary, which polls the upstream on request. */
async function worker (
  t: Test,
  nodeUrl: string,
  listen = '127.0.0.1:0'
): Promise<
  {
    line: PrimaryChannel,
    messages: ToPrimary[],
    url: () => string,
    ended: Promise<void>,
    runQuery: (request: Extract<ToWorker, { kind: 'query' }>['query']) => Promise<QueryResult['result']>
  }
> {
  const messages: ToPrimary[] = []
  let queryCount = 0
  const line = new PrimaryChannel((message, onSent) => {
    onSent?.()
    messages.push(message)
    if (message.kind !== 'poll') return
    fetch(nodeUrl + message.target).then(async response => {
      line.onMessage({
        kind: 'poll_result',
        upstream: message.upstream,
        target: message.target,
        result: {
          status: response.status,
          headers: Object.fromEntries(response.headers),
          body: Buffer.from(await response.arrayBuffer())
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
  line.onMessage({ kind: 'start', config, sandbox: undefined, resetCount: 3, cordoned: [], folder: undefined })
  const ended = line.serve(await line.started, pino({ level: 'silent' }))
  t.teardown(async () => {
    line.onMessage({ kind: 'stop', deadlines: { drainMs: 0 } })
    await ended.catch(() => {})
  })
  return {
    line,
    messages,
    ended,
    url: () => messages.flatMap(message => message.kind === 'listening' ? [message.url] : []).join(),
    runQuery: async query => {
      const id = ++queryCount
      line.onMessage({ kind: 'query', id, query })
      const findResult = (): QueryResult | undefined =>
        messages.find((message): message is QueryResult => message.kind === 'query_result' && message.id === id)
      await until(() => findResult() !== undefined, 'the worker has responded')
      return findResult()?.result ?? { error: 'nothing' }
    }
  }
}

const target = '/v1/accounts/0x1/modules?ledger_version=2000&limit=1'

t.test('a worker listens, gets poll results from the primary, and reports heads and metrics', async t => {
  const sandbox = await startSandboxNode(t, { prunedBlocks: 0 })
  const { line, messages, url, runQuery, ended } = await worker(t, sandbox.url)
  await until(() => messages.some(({ kind }) => kind === 'ready'), 'the worker is ready')
  t.equal(sandbox.requests.countFor('index'), 1)
  t.match(await sendRequest(url(), target), { status: 200 })
  sandbox.ledger.grow(3)
  await sendRequest(url(), '/v1/accounts/0x1/modules?limit=1')
  const heads = messages.flatMap(message => message.kind === 'head' ? [message] : [])
  t.match(heads.at(-1), { resetCount: 3, stamped: { position: { head: { version: sandbox.ledger.head.version } } } })
  t.match(await runQuery({ kind: 'status' }), {
    value: { ready: true, pid: process.pid, upstreams: [{ name: 'node', state: 'up' }] }
  })
  t.match(await runQuery({ kind: 'metrics' }), { value: [{ name: String, values: Array }] })
  t.match(await runQuery({ kind: 'purge', body: Buffer.from(JSON.stringify({ method: 'GET', url: target })) }), {
    value: { everywhere: true }
  })
  t.match((await sendRequest(url(), target)).headers, { 'cache-status': /uri-miss/ })
  t.match(
    await runQuery({ kind: 'purge_locally', body: Buffer.from(JSON.stringify({ method: 'GET', url: target })) }),
    {
      value: true
    }
  )
  t.match((await sendRequest(url(), target)).headers, { 'cache-status': /uri-miss/ })
  t.match(await runQuery({ kind: 'purge_locally', body: Buffer.from('{"all":true}') }), { value: true })
  t.match((await sendRequest(url(), target)).headers, { 'cache-status': /uri-miss/ })
  t.match(await runQuery({ kind: 'purge', body: Buffer.from('{}') }), {
    errorResponse: { status: 400, code: 'invalid_input' }
  })
  line.onMessage({ kind: 'stop', deadlines: { drainMs: 0 } })
  await ended
  t.match(messages.at(-1), { kind: 'final_report', metrics: Array }, 'the final metrics come last')
})

t.test('a worker serves a head from another worker of its chain, and polls after a reset', async t => {
  const sandbox = await startSandboxNode(t, { prunedBlocks: 0 })
  const { line, messages, url } = await worker(t, sandbox.url)
  await until(() => messages.some(({ kind }) => kind === 'ready'), 'the worker is ready')
  const servedVersion = async (): Promise<unknown> =>
    (await sendRequest(url(), target)).headers['x-node-ledger-version']
  sandbox.ledger.grow(1)
  await sendRequest(url(), '/v1/accounts/0x1/modules?limit=1')
  const [head] = messages.flatMap(message => message.kind === 'head' ? [message.stamped] : [])
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
  t.equal(await servedVersion(), String(sandbox.ledger.head.version))
  line.onMessage({ kind: 'head', resetCount: 3, stamped: later(7n) })
  t.equal(await servedVersion(), String(sandbox.ledger.head.version + 7n))
  const polls = (): number => messages.filter(({ kind }) => kind === 'poll').length
  const before = polls()
  line.onMessage({ kind: 'chain_reset', resetCount: 3 })
  t.equal(polls(), before, 'it has seen this reset')
  line.onMessage({ kind: 'chain_reset', resetCount: 4 })
  t.equal(polls(), before + 1)
  sandbox.ledger.grow(2)
  // Sends a poll result that the worker did not request.
  const index = await fetch(`${sandbox.url}/v1`)
  line.onMessage({
    kind: 'poll_result',
    upstream: 'node',
    target: '/v1',
    result: { status: 200, headers: Object.fromEntries(index.headers), body: Buffer.from(await index.arrayBuffer()) }
  })
  await until(
    async () => await servedVersion() === String(sandbox.ledger.head.version),
    'the worker serves the new head'
  )
})

t.test('a worker that cannot listen reports the error and ends', async t => {
  const sandbox = await startSandboxNode(t, { prunedBlocks: 0 })
  const { ended } = await worker(t, sandbox.url, new URL(sandbox.url).host)
  await t.rejects(ended, { message: /^cannot listen on .* \(listen\): .*EADDRINUSE/ })
})

t.test('a worker that has not started reports so to a query', async t => {
  const messages: ToPrimary[] = []
  new PrimaryChannel(message => {
    messages.push(message)
  }).onMessage({ kind: 'query', id: 1, query: { kind: 'status' } })
  await until(() => messages.length === 1, 'the worker has responded')
  t.match(messages, [{ kind: 'query_result', id: 1, result: { error: 'the worker has not started yet' } }])
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
