import { EventEmitter } from 'node:events'
import { buffer } from 'node:stream/consumers'
import fc from 'fast-check'
import t from 'tap'
import { InFlightBytes, RequestBytes } from '../../src/upstreams/in-flight-bytes.js'
import { Exchange } from '../../src/upstreams/exchange.js'
import { checkAsync, seedTitle } from '../support/properties.js'
import { testRequest } from '../support/upstream.js'

/** Sends chunks to an exchange no faster than it reads, then ends. */
function connectionTo (
  exchange: Exchange,
  chunks: readonly Buffer[],
  headers: Record<string, string> = {}
): void {
  const left = [...chunks]
  const controller = {
    paused: false,
    aborted: false,
    reason: null,
    pause: () => {
      controller.paused = true
    },
    resume: () => {
      controller.paused = false
      setImmediate(send)
    },
    abort: () => {}
  }
  const send = (): void => {
    while (left.length > 0 && !controller.paused) exchange.onResponseData(controller, left.shift() as Buffer)
    if (!controller.paused) exchange.onResponseEnd()
  }
  exchange.onRequestStart(controller)
  exchange.onResponseStart(controller, 103, { link: 'early' })
  exchange.onResponseStart(controller, 200, headers)
  setImmediate(send)
}

function exchangeOf (maxBufferedBytes: number, inFlight?: InFlightBytes, bytes?: RequestBytes): Exchange {
  return new Exchange(
    { maxBufferedBytes, inFlight, dispatch: () => {} },
    { ...testRequest, client: { id: undefined, bytes } }
  )
}

const ten = Buffer.from('0123456789')
const large = Buffer.alloc(300_000, 'abc')

t.test(`the body equals the upstream's bytes for any chunks and any limit (${seedTitle})`, async t => {
  let cut = 0
  await checkAsync(
    fc.asyncProperty(
      fc.array(fc.uint8Array({ minLength: 1, maxLength: 40 })),
      fc.nat(300),
      fc.boolean(),
      async (chunks, limit, hasLength) => {
        const bytes = Buffer.concat(chunks)
        const exchange = exchangeOf(limit)
        connectionTo(
          exchange,
          chunks.map(chunk => Buffer.from(chunk)),
          hasLength ? { 'content-length': String(bytes.length) } : {}
        )
        const { body, rest } = await exchange.received
        if (rest !== undefined) cut++
        return (rest === undefined) === (bytes.length <= limit) &&
          Buffer.concat([body, rest === undefined ? Buffer.of() : await buffer(rest)]).equals(bytes)
      }
    ),
    300
  )
  t.ok(cut > 30, `${cut} bodies were split`)
})

t.test('a large body of known length takes one buffer, which the request holds until it is over', async t => {
  const inFlight = new InFlightBytes(100 * large.length, () => 0)
  const requestBytes = new RequestBytes('a')
  const exchange = exchangeOf(large.length, inFlight, requestBytes)
  connectionTo(exchange, [large.subarray(0, 100_000), large.subarray(100_000)], {
    'content-length': String(large.length)
  })
  t.equal(inFlight.bytes, large.length, 'all of it is taken before the first byte')
  const { body } = await exchange.received
  t.ok(body.equals(large))
  t.equal(body.buffer.byteLength, large.length)
  t.equal(inFlight.bytes, large.length)
  requestBytes.end()
  t.equal(inFlight.bytes, 0)
})

t.test('a body that is whole in one chunk takes nothing on its way, and is counted where it waits', async t => {
  const inFlight = new InFlightBytes(100 * large.length, () => 0)
  const response = Object.assign(new EventEmitter(), { destroyed: false })
  const requestBytes = new RequestBytes('a', inFlight, response)
  const exchange = exchangeOf(large.length, inFlight, requestBytes)
  const chunk = Buffer.alloc(10_000)
  connectionTo(exchange, [chunk], { 'content-length': String(chunk.length) })
  const { body } = await exchange.received
  t.equal(body, chunk)
  t.equal(inFlight.bytes, 0)
  requestBytes.holdWaiting(body)
  t.equal(inFlight.bytes, chunk.buffer.byteLength)
  response.emit('close')
  t.equal(inFlight.bytes, 0)
  const late = new RequestBytes('a', inFlight, { ...response, destroyed: true, once: () => t.fail() })
  late.holdWaiting(body)
  t.equal(inFlight.bytes, 0, 'nothing is held for a response that is over')
})

t.test('a body longer than its Content-Length is whole; without a client it is held as it comes', async t => {
  const inFlight = new InFlightBytes(100 * large.length, () => 0)
  const exchange = exchangeOf(2 * large.length, inFlight)
  connectionTo(exchange, [large, ten], { 'content-length': String(large.length) })
  const { body } = await exchange.received
  t.ok(body.equals(Buffer.concat([large, ten])))
  t.equal(inFlight.bytes, 0)
})
