import t from 'tap'
import { blockLies, notFoundLies, pageLies, transactionLies } from '../support/deceptive/lies/bodies.js'
import { chunkLies, lengthLies } from '../support/deceptive/lies/framing.js'
import { headerLies, statusLies, mediaTypeLies } from '../support/deceptive/lies/heads.js'
import { positionLies } from '../support/deceptive/lies/positions.js'
import { tryLies } from '../support/deceptive/try-lies.js'

// All kinds take too long here; `npm run nightly -- lies` has the rest.
const some = 1

t.test('whatever length an upstream declares, a client gets the whole response or none', async t => {
  await tryLies(t, lengthLies, some)
})

t.test('whatever an upstream does with chunks, a client gets the whole response or none', async t => {
  await tryLies(t, chunkLies, some)
})

t.test('only upstream headers meant for clients are forwarded, however they are written', async t => {
  await tryLies(t, headerLies, some)
})

t.test('an unexpected status is never taken for a response', async t => {
  await tryLies(t, statusLies, some)
})

t.test('a media type or coding that was not requested is neither stored nor forwarded', async t => {
  await tryLies(t, mediaTypeLies, some)
})

t.test('a malformed or contradictory position is not shown, and its response is not used', async t => {
  await tryLies(t, positionLies, some)
})

t.test('a block other than the one requested is not forwarded; a contradictory one is not stored', async t => {
  await tryLies(t, blockLies, some)
})

t.test('an events page is stored only if it is the one requested', async t => {
  await tryLies(t, pageLies, some)
})

t.test('a wrong transaction is not forwarded, and one not certainly committed is not stored', async t => {
  await tryLies(t, transactionLies, some)
})

t.test('a not-found response is stored only if it is certain', async t => {
  await tryLies(t, notFoundLies, some)
})
