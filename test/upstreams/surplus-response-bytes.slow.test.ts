import t, { type Test } from 'tap'
import { type ReadKind, readKindOf, readKinds } from '../support/deceptive/read-kinds.js'
import { setTrueResponse } from '../support/deceptive/deceptive-upstream.js'
import { faultsIn, type DeceptionSetup, startDeception, tryLies } from '../support/deceptive/try-lies.js'
import { WireClient } from '../support/deceptive/wire-client.js'
import { encodeChunked, thenHang, thenKeepAlive, responseBytes } from '../support/deceptive/response-bytes.js'
import { until } from '../support/until.js'

// Builds a complete response to another read, which every kind of read would accept as its own.
const poison = (kind: ReadKind): string => responseBytes({ ...kind.trueResponse(66_666), nth: 0 })

const surplus: ReadonlyArray<readonly [string, (kind: ReadKind) => string]> = [
  ['a whole response', poison],
  ['two whole responses', kind => poison(kind) + poison(kind)],
  ['half a response', kind => poison(kind).slice(0, 60)],
  ['a blank line', () => '\r\n'],
  ['a byte', () => 'x'],
  ['a word on the way', () => 'HTTP/1.1 103 Early Hints\r\n\r\n'],
  ['a 408', () => 'HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n']
]

t.test('varve discards bytes after a response, whatever it reads next', async t => {
  await tryLies(
    t,
    surplus.flatMap(([name, more]) =>
      [
        {
          name: `${name} behind a length`,
          respond: (truth, kind) => thenKeepAlive(responseBytes(truth) + more(kind)),
          cacheable: 'truth',
          forwarded: 'truth'
        },
        {
          name: `${name} behind the last chunk`,
          respond: (truth, kind) =>
            thenKeepAlive(
              responseBytes(truth, { framing: ['transfer-encoding: chunked'], body: encodeChunked(truth.body) }) +
                more(kind)
            ),
          cacheable: 'truth',
          forwarded: 'truth'
        }
      ] as const
    ),
    4
  )
})

/** Sends surplus bytes after a response; every later read must still get its own response. */
async function sendLate (
  t: Test,
  { varve, upstream, next }: DeceptionSetup,
  kind: ReadKind,
  name: string,
  more: string,
  isAtOnce: boolean
): Promise<void> {
  const client = new WireClient(varve.url)
  t.teardown(() => {
    client.close()
  })
  const [first, second, third] = [kind.trueResponse(next()), kind.trueResponse(next()), kind.trueResponse(next())]
  setTrueResponse(first)
  t.same(faultsIn('truth', first, await client.send(kind.request(first.nth))), [], `${name}: ${kind.name}`)
  const connection = upstream.last
  setTrueResponse(second)
  if (isAtOnce) {
    // Sends both before varve reads the socket again.
    const pending = client.send(kind.request(second.nth))
    connection?.write(more, 'latin1')
    t.same(faultsIn('truth', second, await pending), [], `${name}: ${kind.name}, at the same time`)
  } else {
    connection?.write(more, 'latin1')
    // Skips blank lines: before a response they mean nothing (RFC 9112, section 2.2).
    if (more.trim() !== '') await until(() => connection?.destroyed === true, 'varve drops that connection')
    t.same(
      faultsIn('truth', second, await client.send(kind.request(second.nth))),
      [],
      `${name}: ${kind.name}, later`
    )
  }
  setTrueResponse(third)
  t.same(
    faultsIn('truth', third, await client.send(kind.request(third.nth))),
    [],
    `${name}: ${kind.name}, after that`
  )
  t.equal(client.unexpectedText, '', `${name}: ${kind.name}, one response each`)
}

t.test('bytes on an idle upstream connection are discarded, and the connection closes', async t => {
  const stage = await startDeception(t, { upstream: { maxConcurrent: 1, timeoutMs: 5000 } })
  for (const [name, more] of surplus) {
    for (const kind of readKinds) await sendLate(t, stage, kind, name, more(kind), false)
  }
})

t.test('varve discards bytes that an upstream sent before the request, even arriving together', async t => {
  const stage = await startDeception(t, { upstream: { maxConcurrent: 1, timeoutMs: 5000 } })
  for (const kind of readKinds) {
    for (let round = 0; round < 5; round++) await sendLate(t, stage, kind, 'a whole response', poison(kind), true)
  }
})

t.test('a read that waits for a connection never gets bytes left over on it', async t => {
  const { varve, upstream, next } = await startDeception(t, { upstream: { maxConcurrent: 1, timeoutMs: 5000 } })
  for (const kind of readKinds.filter(({ isStored, isForwarded }) => isStored || isForwarded)) {
    const [first, second] = [
      kind.trueResponse(next()),
      readKindOf(kind.name === 'modules' ? 'table item' : 'modules').trueResponse(next())
    ]
    setTrueResponse(second)
    const clients = [new WireClient(varve.url), new WireClient(varve.url)] as const
    t.teardown(() => {
      for (const client of clients) client.close()
    })
    upstream.lies.set(first.target, thenHang(''))
    const responses = [clients[0].send(kind.request(first.nth))]
    const count = upstream.requests.length
    await until(() => upstream.requests.length > count, 'the upstream got the request')
    responses.push(clients[1].send(readKindOf(kind.name === 'modules' ? 'table item' : 'modules').request(second.nth)))
    const before = await varve.metric('varve_upstream_requests_total{upstream="node",endpoint="info",status="200"}')
    t.equal(before, undefined, 'no other request is sent')
    upstream.last?.write(responseBytes(first) + poison(kind), 'latin1')
    t.same(faultsIn('truth', first, await responses[0] ?? never()), [], `${kind.name}: the read in progress`)
    t.same(faultsIn('truth', second, await responses[1] ?? never()), [], `${kind.name}: the waiting read`)
    upstream.lies.clear()
  }
})

function never (): never {
  throw new Error('not requested')
}
