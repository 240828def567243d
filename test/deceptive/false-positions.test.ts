import t from 'tap'
import { headPosition, readKindOf } from '../support/deceptive/read-kinds.js'
import { setTrueResponse } from '../support/deceptive/deceptive-upstream.js'
import { foreignPositionLies } from '../support/deceptive/lies/positions.js'
import { type DeceptionSetup, startDeception } from '../support/deceptive/try-lies.js'
import { WireClient } from '../support/deceptive/wire-client.js'
import {
  encodeChunked,
  thenEnd,
  thenKeepAlive,
  type ScriptedBytes,
  responseBytes
} from '../support/deceptive/response-bytes.js'
import { until } from '../support/until.js'

const modules = readKindOf('modules')
const index = {
  nth: 0,
  target: '/v1',
  type: 'application/json',
  positionHeaders: headPosition,
  body: '{"git_hash":"aaaa"}'
}
const te = ['transfer-encoding: chunked']
const later = {
  ...headPosition,
  'x-aptos-ledger-version': '1000010',
  'x-aptos-ledger-timestampusec': '5000100',
  'x-aptos-block-height': '100001'
}

/** Reads history for the first time; returns the position and if the response is true. */
async function readNew ({ varve, next }: DeceptionSetup): Promise<{ isTrue: boolean, version: string | undefined }> {
  const truth = modules.trueResponse(next())
  setTrueResponse(truth)
  const client = new WireClient(varve.url)
  const { status, body, headerLines } = await client.send(modules.request(truth.nth))
  client.close()
  return {
    isTrue: status === 200 && body === truth.body,
    version: headerLines.find(([name]) => name === 'x-node-ledger-version')?.[1]
  }
}

/** Waits until reads succeed at the current head, once the upstream is truthful again. */
async function recovers (stage: DeceptionSetup, name: string): Promise<void> {
  await until(
    async () => {
      const { isTrue, version } = await readNew(stage)
      return isTrue && version === stage.upstream.head['x-aptos-ledger-version']
    },
    `${name}: the truth is shown again`,
    5000
  )
}

// Lies in responses to head polls.
const words: ReadonlyArray<readonly [string, ScriptedBytes]> = [
  ['cut short', thenEnd(responseBytes(index, { framing: ['content-length: 99'] }))],
  ['a chunk cut short', thenEnd(responseBytes(index, { framing: te, body: `ff\r\n${index.body}` }))],
  ['no HTTP', thenEnd('evil\r\n\r\n')],
  ['nothing', thenEnd('')],
  [
    'surplus behind it',
    thenKeepAlive(responseBytes(index) + responseBytes(index, { stamps: { 'x-aptos-ledger-version': '7' } }))
  ],
  [
    'positions in trailers',
    thenKeepAlive(
      responseBytes(index, { framing: te, body: encodeChunked(index.body, 'x-aptos-ledger-version: 7\r\n') })
    )
  ],
  [
    'a transfer coding',
    thenEnd(
      responseBytes(index, {
        framing: ['transfer-encoding: gzip, chunked'],
        stamps: { 'x-aptos-ledger-version': '2000000' },
        body: encodeChunked(index.body)
      })
    )
  ],
  ['no position', thenKeepAlive(responseBytes({ ...index, positionHeaders: {} }))],
  [
    'two positions',
    thenKeepAlive(
      responseBytes(index, { lines: Object.keys(headPosition).map(name => `${name.replace('aptos', 'node')}: 7`) })
    )
  ],
  [
    'a time of 2^64-1',
    thenKeepAlive(
      responseBytes(index, {
        stamps: {
          'x-aptos-ledger-timestampusec': '18446744073709551615',
          'x-aptos-ledger-version': '18446744073709551615'
        }
      })
    )
  ],
  [
    'a time in the year 2100 and a later head',
    thenKeepAlive(
      responseBytes(index, {
        stamps: { 'x-aptos-ledger-timestampusec': '4102444800000000', 'x-aptos-ledger-version': '1000500' }
      })
    )
  ],
  [
    'a version beyond u64',
    thenKeepAlive(responseBytes(index, { stamps: { 'x-aptos-ledger-version': '18446744073709551616' } }))
  ],
  [
    'an oldest version above the head',
    thenKeepAlive(responseBytes(index, { stamps: { 'x-aptos-ledger-oldest-version': '1000001' } }))
  ],
  ...[204, 206, 301, 304, 307].map((
    code
  ): [string, ScriptedBytes] => [
    `${code}`,
    thenKeepAlive(
      responseBytes(index, {
        first: `HTTP/1.1 ${code} Odd`,
        lines: ['location: /v1/evil'],
        stamps: { 'x-aptos-ledger-version': '2000000' },
        ...((code === 204 || code === 304) && { framing: [], body: '' })
      })
    )
  ]),
  [
    'a page of a gateway',
    thenKeepAlive(responseBytes({ ...index, positionHeaders: {}, type: 'text/html', body: '<html>' }))
  ],
  [
    'a body over the limit',
    thenKeepAlive(
      responseBytes(index, {
        body: 'x'.repeat(1_500_000),
        stamps: { 'x-aptos-ledger-version': '7', 'x-aptos-chain-id': '300' }
      })
    )
  ],
  ['a head over the limit', thenEnd(responseBytes(index, { lines: [`x-evil: ${'x'.repeat(70_000)}`] }))],
  ['a release of 100 KB', thenKeepAlive(responseBytes(index, { body: `{"git_hash":"${'a'.repeat(100_000)}"}` }))]
]

t.test('whatever position an upstream sends, reads go on under the proven position', async t => {
  const stage = await startDeception(t, { head: { pollMs: 20 }, cache: { maxEntryMb: 1 } })
  const { upstream } = stage
  for (const [name, falseResponse] of words) {
    upstream.lies.set('/v1', falseResponse)
    const before = upstream.pollCount
    await until(() => upstream.pollCount > before + 1, `${name}: it got a request`)
    const { isTrue, version } = await readNew(stage)
    t.same([name, isTrue, version], [name, true, headPosition['x-aptos-ledger-version']])
    t.equal(upstream.requests.filter(target => target.includes('evil')).length, 0, 'no other target is requested')
    upstream.lies.delete('/v1')
  }
  upstream.head = later
  await recovers(stage, 'after all of them')
})

t.test('a well-formed false position is not shown for good: the true one after it is accepted', async t => {
  for (const [name, stamps] of foreignPositionLies) {
    for (const target of ['/v1', 'read']) {
      const stage = await startDeception(t, { head: { pollMs: 20 } })
      const { upstream, next, varve } = stage
      await readNew(stage)
      if (target === '/v1') {
        const before = upstream.pollCount
        upstream.lies.set(target, thenKeepAlive(responseBytes(index, { stamps })))
        await until(() => upstream.pollCount > before + 1, `${name}: it got a request`)
        upstream.lies.delete(target)
      } else {
        const truth = modules.trueResponse(next())
        upstream.lies.set(truth.target, thenKeepAlive(responseBytes(truth, { stamps })))
        const client = new WireClient(varve.url)
        await client.send(modules.request(truth.nth))
        client.close()
      }
      upstream.head = later
      await recovers(stage, `${name}, reported at ${target}`)
    }
    t.pass(name)
  }
})
