import t, { type Test } from 'tap'
import { sendRaw, statusesIn } from '../support/raw.js'
import { startEmptyUpstream, startGatedUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt } from '../support/varve.js'

const traceId = '0af7651916cd43dd8448eb211c80319c'
const traceparent = `00-${traceId}-b7ad6b7169203331-01`
const tracestate = 'vendor=t61rcWkgMzE,other=00f067aa0ba902b7'
const traced = { headers: { traceparent, tracestate } }
const modules = '/v1/accounts/0x1/modules?ledger_version=500'
const spec = '/v1/spec.json'

// Invalid traceparent values, and some that would control a log or a terminal.
const invalid = [
  '',
  traceId,
  `00-${traceId}-b7ad6b7169203331`,
  `00-${traceId}-b7ad6b7169203331-1`,
  `00-${traceId}-b7ad6b7169203331-011`,
  `00-${'0'.repeat(32)}-b7ad6b7169203331-01`,
  `00-${traceId}-${'0'.repeat(16)}-01`,
  `ff-${traceId}-b7ad6b7169203331-01`,
  `0-${traceId}-b7ad6b7169203331-01`,
  traceparent.toUpperCase(),
  traceparent.replace('a', 'g'),
  `${traceparent}-evil`,
  `${traceparent}, ${traceparent}`,
  `"${traceparent}"`,
  `${traceparent}\t1`,
  traceparent.replaceAll('-', '_'),
  `01-${traceId}-b7ad6b7169203331-01.evil`,
  `01-${traceId}-b7ad6b7169203331-01-caf\xe9evil`,
  `01-${traceId}-b7ad6b7169203331-01-${'evil'.repeat(125)}`,
  'evil"},{"level":60',
  'evil\\u000a',
  `${traceparent}","evil":"`
]

const accessLines = (varve: TestVarve): Array<Record<string, unknown>> =>
  varve.log.filter(({ msg }) => msg === 'request completed')

/** Starts an upstream that records the trace headers of each request. */
async function startTraceCollector (t: Test): Promise<{ url: string, traces: () => string[][] }> {
  const stub = await startEmptyUpstream(t)
  const tracesIn = (lines: string[]): string[] => lines.filter((_line, at) => /^trace/i.test(lines[at - at % 2] ?? ''))
  return { url: stub.url, traces: () => stub.rawHeaders.map(tracesIn) }
}

t.test('an invalid or repeated traceparent is not forwarded, nor is a tracestate without one', async t => {
  const { url, traces } = await startTraceCollector(t)
  const varve = await varveAt(t, url, { log: { access: true } })
  const sendWith = async (...lines: string[]): Promise<void> => {
    const head = [`GET ${spec} HTTP/1.1`, 'Host: x', 'Connection: close', ...lines, `Tracestate: ${tracestate}`, '', '']
      .join('\r\n')
    t.same(statusesIn(await sendRaw(varve.url, Buffer.from(head, 'latin1'))), [200], lines.join())
  }
  for (const text of invalid) await sendWith(`Traceparent: ${text}`)
  await sendWith()
  await sendWith(`Traceparent: ${traceparent}`, `Traceparent: ${traceparent}`)
  await sendWith(`Traceparent: ${traceparent}`, `Traceparent: 00-${'1'.repeat(32)}-b7ad6b7169203331-01`)
  t.same(traces().flat(), [])
  t.equal(traces().length, invalid.length + 3)
  t.notOk(accessLines(varve).some(line => 'traceId' in line))
  t.notMatch(JSON.stringify(varve.log), 'evil', 'not a byte of it reaches the log')
  await sendWith('Connection: traceparent', `Traceparent: ${traceparent}`)
  t.same(traces().flat(), [], 'nor one listed under Connection')
  const later = `cc-${traceId}-b7ad6b7169203331-01-later`
  await sendWith(`Traceparent: ${later}`)
  t.match(traces().at(-1), [/^traceparent$/i, later, /^tracestate$/i, tracestate], 'one of a later version is')
})

t.test('no known read sends trace headers upstream, whether missed, coalesced or latest', async t => {
  const stub = await startGatedUpstream(t)
  const varve = await varveAt(t, stub.url, { log: { access: true } })
  const other = '1'.repeat(32)
  const first = varve.get(modules, traced)
  await until(() => stub.requests.length === 1, 'the fetch has started')
  const second = varve.get(modules, { headers: { traceparent: traceparent.replace(traceId, other), tracestate } })
  const moving = varve.get('/v1/accounts/0x1/modules', traced)
  await until(() => stub.requests.length === 2, 'the upstream got two requests')
  stub.release()
  await Promise.all([first, second, moving])
  t.notMatch(stub.rawHeaders.flat().join('\n'), new RegExp(`trace|${traceId}|${other}`, 'i'))
  t.same(
    accessLines(varve).filter(({ url }) => url === modules).map(({ outcome, traceId: of }) => [outcome, of]).sort(),
    [
      ['collapsed', other],
      ['miss', traceId]
    ],
    'each has its own trace ID in the log'
  )
})
