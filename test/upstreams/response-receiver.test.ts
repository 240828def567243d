import fc from 'fast-check'
import t from 'tap'
import { InFlightBytes, RequestBytes, bytesPerStream } from '../../src/upstreams/in-flight-bytes.js'
import { ResponseReceiver, type ResponseReceiverOptions } from '../../src/upstreams/response-receiver.js'
import { type RemainingBody } from '../../src/api/upstream-response.js'
import { checkAsync, seedTitle } from '../support/properties.js'

/** Reads the remaining body to its end. */
async function whole (rest: RemainingBody | undefined): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  for await (const chunk of rest ?? []) chunks.push(chunk)
  return Buffer.concat(chunks)
}

/** Sends chunks to a receiver no faster than it reads, then ends, with an error if one is given. */
function connectionTo (
  reception: ResponseReceiver,
  chunks: readonly Buffer[],
  headers: Record<string, string> = {},
  error?: Error
): { sent: () => number, aborted: () => unknown } {
  let at = 0
  let aborted: unknown
  const controller = {
    paused: false,
    aborted: false,
    reason: null,
    pause: () => {
      controller.paused = true
    },
    resume: () => {
      if (!controller.paused) return
      controller.paused = false
      setImmediate(send)
    },
    abort: (reason: unknown) => {
      aborted = reason
      controller.aborted = true
      reception.onResponseError(controller, reason as Error)
    }
  }
  const send = (): void => {
    while (at < chunks.length && !controller.paused && !controller.aborted) {
      reception.onResponseData(controller, chunks[at++] as Buffer)
    }
    if (controller.paused || controller.aborted || at < chunks.length) return
    if (error === undefined) reception.onResponseEnd()
    else reception.onResponseError(controller, error)
  }
  reception.onRequestStart(controller)
  if (!controller.aborted) {
    reception.onResponseStart(controller, 103, { link: 'early' })
    reception.onResponseStart(controller, 200, headers)
    setImmediate(send)
  }
  return { sent: () => at, aborted: () => aborted }
}

function receptionOf (
  maxBufferedBytes: number | undefined,
  change: Partial<ResponseReceiverOptions> = {}
): ResponseReceiver & { over: () => number } {
  let over = 0
  const reception = new ResponseReceiver({
    maxBufferedBytes,
    retry: () => false,
    onSent: () => {},
    onDone: () => {
      over++
    },
    ...change
  })
  return Object.assign(reception, { over: () => over })
}

const ten = Buffer.from('0123456789')
const large = Buffer.alloc(300_000, 'abc')

t.test('a body within the limit is buffered whole; a longer one is its beginning and a stream', async t => {
  for (const headers of [{}, { 'content-length': '10' }]) {
    const enough = receptionOf(10)
    connectionTo(enough, [ten.subarray(0, 4), ten.subarray(4)], headers)
    t.same(await enough.received, { status: 200, headers, body: ten, rest: undefined })
    const short = receptionOf(9)
    connectionTo(short, [ten.subarray(0, 4), ten.subarray(4)], headers)
    const { body, rest } = await short.received
    t.ok(rest)
    t.same(Buffer.concat([body, await whole(rest)]), ten)
    t.equal(short.over(), 1, 'it is done when the body has ended')
  }
  const empty = receptionOf(0)
  connectionTo(empty, [])
  t.match(await empty.received, { body: Buffer.alloc(0), rest: undefined }, 'an empty body is whole at any limit')
  const bodiless = receptionOf(undefined)
  connectionTo(bodiless, [], { 'content-length': '1000000' })
  t.match(
    await bodiless.received,
    { body: Buffer.alloc(0), rest: undefined },
    'so is a body that never comes, whatever its headers say'
  )
})

t.test('a body with a Content-Length over the limit is not buffered at all', async t => {
  const reception = receptionOf(109)
  const { sent } = connectionTo(reception, Array(11).fill(ten), { 'content-length': '110' })
  const { body, rest } = await reception.received
  t.equal(body.length, 0)
  await new Promise(resolve => {
    setImmediate(resolve)
  })
  t.equal(sent(), 0, 'nothing is sent before the stream is read')
  t.equal((await whole(rest)).length, 110)
})

t.test('a body of unknown length is buffered up to the limit, then streams at its reader\'s pace', async t => {
  const reception = receptionOf(100_000)
  const chunk = Buffer.alloc(10_000)
  const { sent } = connectionTo(reception, Array(50).fill(chunk))
  const { body, rest } = await reception.received
  t.equal(body.length, 110_000)
  t.equal(sent(), 11)
  const iterator = rest?.[Symbol.asyncIterator]()
  const first = (await iterator?.next())?.value as Buffer
  await new Promise(resolve => {
    setImmediate(resolve)
  })
  t.ok(sent() <= 18, `${sent()} chunks sent, with the stream's read-ahead`)
  let size = first.length
  for (let next = await iterator?.next(); next?.done === false; next = await iterator?.next()) size += next.value.length
  t.equal(size, 390_000)
})

t.test('discarding an unread stream aborts its connection and leaves no unhandled error', async t => {
  for (const headers of [{}, { 'content-length': '20' }]) {
    const reception = receptionOf(5)
    const { aborted } = connectionTo(reception, [ten, ten], headers)
    const { rest } = await reception.received
    rest?.destroy()
    t.match(aborted(), { message: 'body discarded' })
    t.equal(reception.over(), 1)
  }
  const late = receptionOf(5)
  const { aborted } = connectionTo(late, [ten], { 'content-length': '10' })
  const { rest } = await late.received
  await whole(rest)
  rest?.destroy()
  t.equal(aborted(), undefined, 'a complete body aborts no connection')
})

t.test('a cancelled request fails at once at any stage and is aborted upstream', async t => {
  const reason = new Error('too late')
  const queued = receptionOf(10)
  queued.cancel(reason)
  queued.cancel(new Error('again'))
  await t.rejects(queued.received, reason)
  t.equal(queued.over(), 0, 'a request that waits for a connection is not done yet')
  t.equal(connectionTo(queued, [ten]).aborted(), reason, 'it is aborted when it gets a connection')
  t.equal(queued.over(), 1)

  const inFlight = receptionOf(10)
  const connection = connectionTo(inFlight, [ten])
  inFlight.cancel(reason)
  await t.rejects(inFlight.received, reason)
  t.equal(connection.aborted(), reason)

  const streamed = receptionOf(5)
  connectionTo(streamed, [ten, ten], {}, new Error('never'))
  const { rest } = await streamed.received
  streamed.cancel(reason)
  await t.rejects(whole(rest), reason)

  const done = receptionOf(10)
  connectionTo(done, [ten])
  await done.received
  done.cancel(reason)
  t.equal(done.over(), 1, 'a completed request cannot be cancelled')
})

t.test(`the body equals the upstream's bytes for any chunks and any limit (${seedTitle})`, async t => {
  let cut = 0
  await checkAsync(
    fc.asyncProperty(
      fc.array(fc.uint8Array({ minLength: 1, maxLength: 40 })),
      fc.nat(300),
      fc.boolean(),
      async (chunks, limit, hasLength) => {
        const bytes = Buffer.concat(chunks)
        const reception = receptionOf(limit)
        connectionTo(
          reception,
          chunks.map(chunk => Buffer.from(chunk)),
          hasLength ? { 'content-length': String(bytes.length) } : {}
        )
        const { body, rest } = await reception.received
        if (rest !== undefined) cut++
        return (rest === undefined) === (bytes.length <= limit) &&
          Buffer.concat([body, await whole(rest)]).equals(bytes)
      }
    ),
    300
  )
  t.ok(cut > 30, `${cut} bodies were split`)
})

t.test('a large body of known length takes one buffer, which the request holds until it is over', async t => {
  const inFlight = new InFlightBytes(100 * large.length, () => 0)
  const requestBytes = new RequestBytes('a')
  const reception = receptionOf(large.length, { inFlight, requestBytes })
  connectionTo(reception, [large.subarray(0, 100_000), large.subarray(100_000)], {
    'content-length': String(large.length)
  })
  t.equal(inFlight.bytes, large.length, 'all of it is taken before the first byte')
  const { body } = await reception.received
  t.ok(body.equals(large))
  t.equal(body.buffer.byteLength, large.length)
  t.equal(inFlight.bytes, large.length)
  requestBytes.end()
  t.equal(inFlight.bytes, 0)
})

t.test('a body that no bytes are left for is streamed, whether its length is known or not', async t => {
  for (const headers of [{}, { 'content-length': String(large.length) }]) {
    const inFlight = new InFlightBytes(200_000, () => 0)
    const requestBytes = new RequestBytes('a')
    const reception = receptionOf(large.length, { inFlight, requestBytes })
    connectionTo(
      reception,
      [large.subarray(0, 100_000), large.subarray(100_000, 200_000), large.subarray(200_000)],
      headers
    )
    const { body, rest, isOverBudget } = await reception.received
    t.equal(isOverBudget, true)
    t.ok(inFlight.bytes >= bytesPerStream)
    t.ok(Buffer.concat([body, await whole(rest)]).equals(large))
    requestBytes.end()
    t.equal(inFlight.bytes, 0)
  }
})

t.test('a body longer than its Content-Length is whole; without a client it is held as it comes', async t => {
  const inFlight = new InFlightBytes(100 * large.length, () => 0)
  const reception = receptionOf(2 * large.length, { inFlight })
  connectionTo(reception, [large, ten], { 'content-length': String(large.length) })
  const { body } = await reception.received
  t.ok(body.equals(Buffer.concat([large, ten])))
  t.equal(inFlight.bytes, 0)
})
