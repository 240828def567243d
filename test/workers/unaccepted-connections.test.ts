import { type ChildProcess } from 'node:child_process'
import { EventEmitter } from 'node:events'
import t from 'tap'
import { closeUnacceptedConnections } from '../../src/workers/unaccepted-connections.js'

/** A worker's process as node:cluster uses it, with what was heard of it. */
function childOf (
  sentBack = new WeakSet()
): { child: ChildProcess, heard: unknown[], hand: (seq: number) => { isClosed: boolean } } {
  const heard: unknown[] = []
  const child = Object.assign(new EventEmitter(), { send: () => true }) as unknown as ChildProcess
  closeUnacceptedConnections(child, sentBack)
  child.on('internalMessage', message => heard.push(message))
  const hand = (seq: number, handle = {
    isClosed: false,
    close () {
      this.isClosed = true
    }
  }): { isClosed: boolean } => {
    child.send({ act: 'newconn', seq } as never, handle as never)
    return handle
  }
  return { child, heard, hand }
}

t.test('what a worker had been handed and not taken is ended with it', async t => {
  const { child, hand } = childOf()
  const [taken, waiting] = [hand(1), hand(2)]
  child.emit('internalMessage', { cmd: 'NODE_CLUSTER', ack: 1, accepted: true })
  child.emit('exit', 1, null)
  t.same([taken.isClosed, waiting.isClosed], [false, true])
})

t.test('a connection that a worker has no descriptor for goes to another once, and is let go the second time: neither it nor the worker waits for ever', async t => {
  const sentBack = new WeakSet()
  const [first, second] = [childOf(sentBack), childOf(sentBack)]
  const handle = first.hand(7)
  first.child.emit('internalMessage', { cmd: 'NODE_HANDLE_NACK' })
  t.match(first.heard, [{ cmd: 'NODE_CLUSTER', ack: 7, accepted: false }, { cmd: 'NODE_HANDLE_NACK' }])
  second.child.send({ act: 'newconn', seq: 9 } as never, handle as never)
  second.child.emit('internalMessage', { cmd: 'NODE_HANDLE_NACK' })
  t.match(second.heard, [{ cmd: 'NODE_CLUSTER', ack: 9, accepted: true }, {}])
  t.equal(handle.isClosed, false, 'node:cluster closes what was taken')
  first.child.emit('exit', 1, null)
  t.equal(handle.isClosed, false, 'and nothing is held any more')
})

t.test('a process that could not be begun is handed nothing', async t => {
  t.doesNotThrow(() => {
    closeUnacceptedConnections(new EventEmitter() as unknown as ChildProcess, new WeakSet())
  })
})
