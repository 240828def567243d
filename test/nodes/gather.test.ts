import { once } from 'node:events'
import { Readable } from 'node:stream'
import fc from 'fast-check'
import t from 'tap'
import { gather } from '../../src/nodes/gather.js'
import { type Rest } from '../../src/reads/answer.js'
import { checkAsync, seeded } from '../support/properties.js'

/** Reads a rest to its end. */
async function whole (rest: Rest | undefined): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  for await (const chunk of rest ?? []) chunks.push(chunk)
  return Buffer.concat(chunks)
}

/** A source whose bytes are made as they are read, and how many have been. */
function sourceOf (chunks: readonly Buffer[], end: (source: Readable) => void = source => { source.push(null) }): { source: Readable, made: () => number } {
  let at = 0
  const source = new Readable({
    highWaterMark: 1,
    read () {
      const chunk = chunks[at++]
      if (chunk === undefined) end(this)
      else this.push(chunk)
    }
  })
  return { source, made: () => Math.min(at, chunks.length) }
}

const ten = Buffer.from('0123456789')

t.test('a body up to the limit is gathered whole, one byte more is its beginning and the rest to come', async t => {
  for (const headers of [{}, { 'content-length': '10' }]) {
    t.same(await gather(sourceOf([ten.subarray(0, 4), ten.subarray(4)]).source, headers, 10), { body: ten, rest: undefined })
    const { body, rest } = await gather(sourceOf([ten.subarray(0, 4), ten.subarray(4)]).source, headers, 9)
    t.ok(rest)
    t.same(Buffer.concat([body, await whole(rest)]), ten)
  }
  t.same(await gather(sourceOf([]).source, {}, 0), { body: Buffer.alloc(0), rest: undefined }, 'an empty body is whole whatever the limit')
  t.same(await gather(sourceOf([]).source, { 'content-length': '0' }, 0), { body: Buffer.alloc(0), rest: undefined })
})

t.test('a body that says how large it is, is not held at all where that is too large', async t => {
  const { source, made } = sourceOf(Array(11).fill(ten))
  const { body, rest } = await gather(source, { 'content-length': '110' }, 109)
  t.equal(body.length, 0)
  t.equal(made(), 0, 'nothing is read before its reader reads')
  t.equal((await whole(rest)).length, 110)
})

t.test('one that does not say is held up to the limit and no more, and goes on at the pace of its reader', async t => {
  const { source, made } = sourceOf(Array(50).fill(ten))
  const { body, rest } = await gather(source, {}, 100)
  t.equal(body.length, 110)
  t.ok(made() <= 13, `${made()} chunks made, with those that the stream reads ahead`)
  const iterator = rest?.[Symbol.asyncIterator]()
  await iterator?.next()
  t.ok(made() <= 14)
  t.equal(110 + 10 + (await whole(rest)).length, 500)
})

t.test('a body that lies about its length is gathered by what comes', async t => {
  for (const length of ['', 'x', '-1', '1e9x', '5']) {
    t.same(await gather(sourceOf([ten]).source, { 'content-length': length }, 10), { body: ten, rest: undefined })
    t.ok((await gather(sourceOf([ten, ten]).source, { 'content-length': length }, 10)).rest)
  }
})

t.test('a body that breaks off is no body: neither while it is gathered nor in its rest', async t => {
  const breaks = (source: Readable): void => { source.destroy(new Error('cut')) }
  await t.rejects(gather(sourceOf([ten], breaks).source, {}, 100), { message: 'cut' })
  const { rest } = await gather(sourceOf([ten, ten], breaks).source, {}, 5)
  await t.rejects(whole(rest), { message: 'cut' })
  const declared = await gather(sourceOf([ten], breaks).source, { 'content-length': '20' }, 5)
  await t.rejects(whole(declared.rest), { message: 'cut' })
})

t.test('who does not read the rest lets go of it, and no error of its end is left to nobody', async t => {
  for (const isStarted of [false, true]) {
    for (const error of [undefined, new Error('let go')]) {
      const { source } = sourceOf([ten, ten])
      // Undici ends a body that nobody has read with an error of its own.
      source._destroy = (given, done) => { setImmediate(done, given ?? error) }
      const { rest } = await gather(source, isStarted ? {} : { 'content-length': '20' }, 5)
      const closed = new Promise<void>(resolve => { source.once('close', resolve) })
      rest?.destroy()
      await closed
      t.ok(source.destroyed)
    }
  }
  const { source } = sourceOf([ten, ten])
  const { rest } = await gather(source, { 'content-length': '20' }, 5)
  const closed = once(source, 'close').catch(() => {})
  source.destroy(new Error('the node left before anybody read'))
  await closed
  await t.rejects(whole(rest), 'and whoever comes late to read hears of it')
})

t.test(`bytes are the source's, however they come and wherever the limit falls (${seeded})`, async t => {
  let cut = 0
  await checkAsync(fc.asyncProperty(fc.array(fc.uint8Array({ minLength: 1, maxLength: 40 })), fc.nat(300), fc.boolean(), async (chunks, limit, says) => {
    const bytes = Buffer.concat(chunks)
    const { source } = sourceOf(chunks.map(chunk => Buffer.from(chunk)))
    const { body, rest } = await gather(source, says ? { 'content-length': String(bytes.length) } : {}, limit)
    if (rest !== undefined) cut++
    return (rest === undefined) === (bytes.length <= limit) && Buffer.concat([body, await whole(rest)]).equals(bytes)
  }), 300)
  t.ok(cut > 30, `${cut} of them were cut`)
})
