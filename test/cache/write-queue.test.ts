import t, { type Test } from 'tap'
import { WriteQueue } from '../../src/cache/write-queue.js'
import { Deferred } from '../../src/peers/deferred.js'
import { startIdleMeter } from '../support/until.js'
import { until } from '../support/until.js'

const mega = 1024 * 1024
const maxBytes = 32 * mega

/** Writes into nothing; the test decides every outcome. */
class Scripted {
  readonly begun: string[] = []
  readonly outcomes: Array<string | undefined> = []
  readonly ends: string[] = []
  readonly queue: WriteQueue<string>
  canWrite = true
  nowMs = 0
  most = 0
  heldBytes = 0
  readonly #bytes = new Map<string, number>()
  readonly #open = new Map<string, Deferred<void>>()

  constructor (t: Test) {
    this.queue = new WriteQueue(async item => await this.#write(item), {
      now: () => this.nowMs,
      hold: item => {
        const bytes = this.#bytes.get(item) ?? 1
        if (this.heldBytes + bytes > maxBytes) return undefined
        this.heldBytes += bytes
        return {
          release: () => {
            this.heldBytes -= bytes
          }
        }
      },
      canWrite: () => this.canWrite,
      onEnd: (item, isWritten) => {
        this.ends.push(`${item} ${isWritten}`)
      },
      onWriteError: reason => {
        this.outcomes.push(reason)
      }
    })
    t.teardown(() => {
      this.queue.stop()
    })
  }

  /** Adds items under keys: the text of an item without its last digit. */
  add (...items: string[]): void {
    for (const item of items) this.queue.add(item.slice(0, -1), item)
  }

  addBytes (key: string, bytes: number): void {
    this.#bytes.set(`${key}0`, bytes)
    this.add(`${key}0`)
  }

  async #write (item: string): Promise<void> {
    this.begun.push(item)
    const written = new Deferred<void>()
    this.#open.set(item, written)
    this.most = Math.max(this.most, this.#open.size)
    await written.promise
  }

  /** Ends the writes of items, with an error if a reason is given. */
  async end (items: readonly string[], reason?: string): Promise<void> {
    for (const item of items) {
      const write = this.#open.get(item)
      if (write === undefined) throw new Error(`${item} is not under way`)
      this.#open.delete(item)
      if (reason === undefined) write.resolve()
      else write.reject(new Error(reason))
      await new Promise(setImmediate)
    }
  }

  /** Ends the pause after a rejected write. */
  resumeAfterPause (): void {
    this.nowMs += 1000
    this.queue.resume()
  }
}

const numbered = (count: number): string[] => Array.from({ length: count }, (_, nth) => `${nth}.0`)

t.test('eight writes are in flight at most, in order, one for each key, the newest of a key', async t => {
  const scripted = new Scripted(t)
  const items = numbered(30)
  scripted.add(...items)
  t.same([scripted.begun, scripted.queue.size], [items.slice(0, 8), 22])
  await scripted.end(items)
  t.same([scripted.begun, scripted.most, scripted.queue.size], [items, 8, 0])
  t.ok(scripted.outcomes.every(reason => reason === undefined))
  scripted.add('a1', 'a2', 'a3', 'b1')
  await scripted.end(['a1', 'a3'])
  t.same(scripted.begun.slice(30), ['a1', 'b1', 'a3'])
})

t.test('the queue is bounded in number and in bytes, drops the oldest writes and reports it', async t => {
  const scripted = new Scripted(t)
  scripted.canWrite = false
  scripted.add(...numbered(2003))
  t.equal(scripted.queue.size, 2000)
  t.same(scripted.outcomes, Array(3).fill('the write queue is full'))
  scripted.canWrite = true
  scripted.queue.resume()
  t.same(scripted.begun, numbered(11).slice(3))
  scripted.queue.drop(() => true)
  await scripted.end(scripted.begun)
  t.equal(scripted.heldBytes, 0, 'written and dropped entries free their bytes')
  scripted.canWrite = false
  for (let nth = 0; nth < 40; nth++) scripted.addBytes(`${nth}`, mega)
  for (let round = 0; round < 100; round++) scripted.addBytes('39', mega)
  t.equal(scripted.queue.size, 32, 'the same key counts once')
  scripted.addBytes('half', 16 * mega)
  t.equal(scripted.queue.size, 17)
  scripted.addBytes('more than all', 33 * mega)
  t.equal(scripted.queue.size, 0, 'an entry above the limit is not queued')
})

t.test('a rejected write is tried three times, 1 s apart, and its error reported until a success', async t => {
  const scripted = new Scripted(t)
  scripted.add('a1')
  for (let attempt = 1; attempt <= 3; attempt++) {
    t.equal(scripted.begun.length, attempt)
    await scripted.end(['a1'], `OOM ${attempt}`)
    scripted.nowMs += 999
    scripted.queue.resume()
    t.equal(scripted.begun.length, attempt, 'no retry before the pause ends')
    scripted.nowMs++
    scripted.queue.resume()
  }
  t.same([scripted.begun, scripted.queue.size], [['a1', 'a1', 'a1'], 0])
  scripted.add('b1')
  await scripted.end(['b1'])
  t.same(scripted.outcomes, ['OOM 1', 'OOM 2', 'OOM 3', undefined])
  scripted.add('c1')
  await scripted.end(['c1'], 'no')
  scripted.add('d1')
  const waited = startIdleMeter()
  scripted.nowMs += 1000
  await until(() => scripted.begun.length === 7, 'the pause ends by itself')
  t.ok(waited() < 1500)
})

t.test('an outage queues writes and does not count as an attempt of one', async t => {
  const scripted = new Scripted(t)
  scripted.add('a1')
  const fail = async (isOutage: boolean): Promise<void> => {
    scripted.canWrite = !isOutage
    await scripted.end(['a1'], 'the connection broke off')
    scripted.queue.resume()
    await scripted.queue.waitUntilIdle()
    scripted.canWrite = true
    scripted.resumeAfterPause()
  }
  for (let outage = 0; outage < 10; outage++) await fail(true)
  for (let failure = 0; failure < 2; failure++) await fail(false)
  for (let outage = 0; outage < 10; outage++) await fail(true)
  t.equal(scripted.begun.length, 23)
  await fail(false)
  t.same([scripted.begun.length, scripted.queue.size], [23, 0], 'the third rejection is the last')
})

t.test('a write that is dropped, or older than another of its key, is not retried after it fails', async t => {
  for (const canWrite of [true, false]) {
    const scripted = new Scripted(t)
    const items = numbered(10)
    scripted.add(...items)
    t.ok(scripted.queue.drop(item => item === '0.0' || item === '9.0'))
    t.notOk(scripted.queue.drop(item => item === '0.0' || item === '9.0'), 'neither is there any more')
    t.equal(scripted.queue.size, 1)
    let hasFinished = false
    const finished = scripted.queue.waitForInFlight().then(() => {
      hasFinished = true
    })
    scripted.canWrite = canWrite
    scripted.add('1.1')
    await scripted.end(['0.0', '1.0'], 'no')
    t.notOk(hasFinished)
    await scripted.end(items.slice(2, 8))
    await finished
    scripted.canWrite = true
    scripted.resumeAfterPause()
    t.same(scripted.begun.slice(8).sort(), ['1.1', '8.0'], 'the others are written')
    await scripted.end(['1.1', '8.0'])
    scripted.add('0.1')
    t.equal(scripted.begun.at(-1), '0.1', 'and so are later writes')
  }
})

t.test('a write reports at once that it has succeeded, failed or been dropped', async t => {
  const scripted = new Scripted(t)
  scripted.add('a1', ...numbered(7), 'b1', 'b2', 'c1')
  t.same(scripted.ends, ['b1 false'], 'replaced')
  await scripted.end(['a1'], 'no')
  t.same(scripted.ends.slice(1), ['a1 false'], 'before the retry')
  scripted.queue.drop(item => item === 'b2')
  scripted.addBytes('d', maxBytes + 1)
  t.same(scripted.ends.slice(2), ['b2 false', 'c1 false', 'a1 false', 'd0 false'], 'purged, pushed out, too large')
  await scripted.end(['0.0'])
  scripted.queue.stop()
  scripted.add('e1')
  t.same(scripted.ends.slice(6), ['0.0 true', 'e1 false'])
})

t.test('waiting for idle includes writes that start meanwhile; a stopped queue takes nothing more', async t => {
  const scripted = new Scripted(t)
  const items = numbered(10)
  scripted.add(...items)
  let isIdle = false
  const idle = scripted.queue.waitUntilIdle().then(() => {
    isIdle = true
  })
  for (const item of items) {
    t.notOk(isIdle)
    await scripted.end([item])
  }
  await idle
  scripted.add('a1')
  await scripted.end(['a1'], 'no')
  await scripted.queue.waitUntilIdle()
  t.equal(scripted.queue.size, 1, 'paused writes excluded')
  scripted.queue.stop()
  scripted.add('b1')
  scripted.resumeAfterPause()
  t.same([scripted.begun.length, scripted.queue.size], [11, 0])
})
