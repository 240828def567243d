import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import t from 'tap'
import { BodyChunks } from '../../src/upstreams/exchange.js'
import { check, seedTitle } from '../support/properties.js'

const mega = 1024 * 1024

t.test(`a body is the same however its bytes arrive (${seedTitle})`, async t => {
  // Mixes chunks below and above the size that is copied, some as parts of a large read.
  const size = fc.oneof(fc.integer({ min: 0, max: 20 }), fc.integer({ min: 4000, max: 80_000 }))
  check(fc.property(fc.array(fc.tuple(size, fc.boolean()), { maxLength: 30 }), pieces => {
    const chunks = new BodyChunks()
    const sent = pieces.map(([length, isPart], at) => {
      const chunk = isPart ? Buffer.allocUnsafeSlow(100_000).subarray(7, 7 + length) : Buffer.allocUnsafeSlow(length)
      chunks.add(chunk.fill(at + 1))
      return chunk
    })
    t.equal(chunks.length, sent.reduce((sum, { length }) => sum + length, 0))
    t.ok(chunks.join().equals(Buffer.concat(sent)))
  }))
})

t.test('a megabyte in chunks of one byte takes little more than a megabyte', async t => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const used = (): number => {
    // The second waits for the sweep of the first.
    collect()
    collect()
    const { heapUsed, arrayBuffers } = process.memoryUsage()
    return heapUsed + arrayBuffers
  }
  for (
    const chunkOf of [
      () => Buffer.allocUnsafeSlow(1),
      // A part of a read, as of a chunk with a long extension.
      () => Buffer.allocUnsafeSlow(4096).subarray(0, 1)
    ]
  ) {
    const before = used()
    const chunks = new BodyChunks()
    for (let nth = 0; nth < mega / 4; nth++) chunks.add(chunkOf())
    const taken = used() - before
    t.ok(taken < 3 * mega, `${taken} bytes for ${chunks.length}`)
  }
})
