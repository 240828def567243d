import t from 'tap'
import { blockLies, notFoundLies, pageLies, transactionLies } from '../support/deceptive/lies/bodies.js'
import { chunkLies, lengthLies } from '../support/deceptive/lies/framing.js'
import { headerLies, statusLies, mediaTypeLies } from '../support/deceptive/lies/heads.js'
import { positionLies } from '../support/deceptive/lies/positions.js'
import { tryLies } from '../support/deceptive/try-lies.js'

// All kinds take too long here; `npm run nightly -- lies` has the rest.
const some = 1

t.test('whatever a node says of the length of an answer, a client sees it whole or not at all', async t => {
  await tryLies(t, lengthLies, some)
})

t.test('whatever a node does with chunks, a client sees them whole or not at all', async t => {
  await tryLies(t, chunkLies, some)
})

t.test('of the lines of a node nothing arrives that is not meant for the client, however they are written', async t => {
  await tryLies(t, headerLies, some)
})

t.test('a status that was not asked for is never taken for an answer', async t => {
  await tryLies(t, statusLies, some)
})

t.test('a media type or a coding that was not asked for is neither kept nor handed on', async t => {
  await tryLies(t, mediaTypeLies, some)
})

t.test('a position that is none, or contradicts itself, is not shown, and no answer is believed under it', async t => {
  await tryLies(t, positionLies, some)
})

t.test('a block that is not the one asked for is not handed on, and one that contradicts itself is not kept', async t => {
  await tryLies(t, blockLies, some)
})

t.test('a page of events is kept only where it is the one that was asked for', async t => {
  await tryLies(t, pageLies, some)
})

t.test('a transaction that is not the one asked for is not handed on, and what is not committed, or not certainly, is not kept', async t => {
  await tryLies(t, transactionLies, some)
})

t.test('what is missing is kept only where it is certain', async t => {
  await tryLies(t, notFoundLies, some)
})
