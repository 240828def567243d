import t from 'tap'
import { InFlightBytes } from '../../src/upstreams/in-flight-bytes.js'

const mega = 1024 * 1024

function budgetOf (maxBytes = 64 * mega): { budget: InFlightBytes, clock: { ms: number } } {
  const clock = { ms: 0 }
  return { budget: new InFlightBytes(maxBytes, () => clock.ms), clock }
}

t.test('a buffer counts once, however many fetches and responses hold it', async t => {
  const { budget } = budgetOf()
  const buffer = new ArrayBuffer(mega)
  const held = [budget.holdFetched(buffer, 'a'), budget.holdFetched(buffer, 'b'), budget.holdSent(buffer)]
  t.equal(budget.bytes, mega)
  for (const { release } of held.slice(1)) release()
  t.equal(budget.bytes, mega)
  held[0]?.release()
  t.equal(budget.bytes, 0)
})

t.test('hits that are read slowly never reject a fetch, but leave no room for storing', async t => {
  const { budget } = budgetOf()
  for (let nth = 0; nth < 100; nth++) budget.holdSent(new ArrayBuffer(mega))
  t.ok(budget.admits('a'))
  t.notOk(budget.canBuffer(mega))
})

t.test('a body larger than half of the budget is buffered for a client that holds nothing else', async t => {
  const { budget } = budgetOf()
  t.ok(budget.canBuffer(40 * mega, 0, 'a'))
  const held = budget.take(20 * mega, 'a')
  t.notOk(budget.canBuffer(20 * mega, 0, 'a'))
  t.ok(budget.canBuffer(20 * mega, 20 * mega, 'a'), 'what it holds is the beginning of the same body')
  t.ok(budget.canBuffer(20 * mega, 0, 'b'))
  held.release()
})

t.test('the budget counts as exhausted for ten seconds after it was short', async t => {
  const { budget, clock } = budgetOf()
  t.notOk(budget.isExhausted)
  t.notOk(budget.canBuffer(49 * mega))
  clock.ms = 9999
  t.ok(budget.isExhausted)
  clock.ms = 10_000
  t.notOk(budget.isExhausted)
  budget.maxBytes = 0
  t.notOk(budget.admits('a'))
  t.ok(budget.isExhausted)
})

t.test('writes to Redis take an eighth at most, and nothing that responses need', async t => {
  const { budget } = budgetOf()
  const buffer = new ArrayBuffer(8 * mega)
  const [first, again] = [budget.holdQueued(buffer), budget.holdQueued(buffer)]
  t.equal(budget.bytes, 8 * mega, 'a buffer counts once')
  t.equal(budget.holdQueued(new ArrayBuffer(1)), undefined, 'the share is used')
  first?.release()
  t.equal(budget.holdQueued(new ArrayBuffer(1)), undefined, 'the other still holds it')
  again?.release()
  t.equal(budget.bytes, 0)
  const entry = budget.holdQueued(new ArrayBuffer(20 * mega))
  t.ok(entry, 'an entry larger than the share goes alone')
  t.ok(budget.admits('a'))
  entry?.release()
  budget.holdSent(buffer)
  budget.holdSent(new ArrayBuffer(40 * mega))
  t.equal(budget.holdQueued(new ArrayBuffer(1)), undefined)
  t.ok(budget.holdQueued(buffer), 'a buffer that is being sent costs nothing more')
  t.notOk(budget.isExhausted, 'a dropped write concerns no client')
})
