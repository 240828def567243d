import t from 'tap'
import { type ResponseReader, readersToCut } from '../../src/http/slow-readers.js'

const mega = 1024 * 1024

function reader (
  bytesPerSecond: number,
  memory: ArrayBufferLike = new ArrayBuffer(mega),
  backlogTicks = 60
): ResponseReader {
  return { throughput: { backlogTicks, bytesPerSecond }, memory, queuedBytes: 64 * 1024 }
}

t.test('while responses in flight fit into memory, the slowest client is not cut', async t => {
  t.same(readersToCut(3 * mega, [reader(0), reader(1), reader(2)]), [])
})

t.test('if memory in flight is exceeded, the slowest clients are cut, and no more than needed', async t => {
  const readers = [reader(150_000), reader(0), reader(32_000), reader(90_000)]
  t.strictSame(readersToCut(2 * mega, readers), [readers[1], readers[2]])
})

t.test('of equally slow clients the one with the longest backlog is cut', async t => {
  const readers = [reader(0, undefined, 20), reader(0, undefined, 30), reader(0, undefined, 10)]
  t.strictSame(readersToCut(2 * mega, readers), [readers[1]])
})

t.test('a client is never cut in its first six seconds, however little memory is left', async t => {
  t.same(readersToCut(0, [reader(0, undefined, 1), reader(0, undefined, 6)]), [])
})

t.test('a body that many clients read at the same time is counted once', async t => {
  const shared = new ArrayBuffer(mega)
  const readers = Array.from({ length: 100 }, () => reader(0, shared))
  t.same(readersToCut(mega, readers), [])
  t.equal(readersToCut(mega - 1, readers).length, 100)
})
