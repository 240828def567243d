import t, { type Test } from 'tap'
import { type Sandbox } from '../../src/sandbox/sandbox.js'
import { mistakes, reads, refusals } from '../support/sdk/calls.js'
import { groundOf, type Readers, sameThroughVarve } from '../support/sdk/compare.js'
import { readerInNode } from '../support/sdk/fresh.js'
import { type TestVarve, varveAtSandbox } from '../support/varve.js'

function readersOf (t: Test, sandbox: Sandbox, varve: TestVarve): Readers {
  const ground = groundOf(sandbox)
  return { direct: readerInNode(t, sandbox.url, ground), first: readerInNode(t, varve.url, ground), second: readerInNode(t, varve.url, ground) }
}

t.test('what the official client reads through varve is what it reads from the node, and history is read of it once', async t => {
  for (const pinned of [false, true]) {
    const { sandbox, varve } = await varveAtSandbox(t, {}, { pages: { pinned } })
    // The cursors of pinned listings carry a version: they have a test of their own.
    const calls = reads.filter(({ showsCursor }) => !pinned || showsCursor !== true)
    await sameThroughVarve(t, sandbox, calls, readersOf(t, sandbox, varve))
  }
})

t.test('what the node refuses the official client, varve refuses with the same error', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  await sameThroughVarve(t, sandbox, refusals, readersOf(t, sandbox, varve))
})

t.test('what no node could read varve refuses in its own words: to the client an error of the same class, status and members', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  const { direct, first } = readersOf(t, sandbox, varve)
  for (const call of mistakes) {
    const [theirs, ours] = [await direct.tell(call), await first.tell(call)]
    const shapeOf = ({ told }: { told: string }): unknown => {
      const { error: { message, data, ...error } } = JSON.parse(told) as { error: { message: string, data: { message: string, error_code: string } } }
      return { error, isShort: message.includes(JSON.stringify(data)), members: Object.keys(data) }
    }
    t.same(shapeOf(ours), shapeOf(theirs), call.title)
    t.match(JSON.parse(ours.told), { error: { class: 'AptosApiError', status: 400, data: { error_code: 'invalid_input' } } })
  }
  t.equal(sandbox.asked.total, mistakes.length, 'by the direct reads alone')
})
