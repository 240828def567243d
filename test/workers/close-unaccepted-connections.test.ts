import { type ChildProcess } from 'node:child_process'
import { EventEmitter } from 'node:events'
import t from 'tap'
import { closeUnacceptedConnections } from '../../src/workers/close-unaccepted-connections.js'

/** Mimics a worker process as node:cluster uses it, and records what it is sent. */
function childOf (
  sentBack = new WeakSet()
): { child: ChildProcess, received: unknown[], hand: (seq: number) => { isClosed: boolean } } {
  const received: unknown[] = []
  const child = Object.assign(new EventEmitter(), { send: () => true }) as unknown as ChildProcess
  closeUnacceptedConnections(child, sentBack)
  child.on('internalMessage', message => received.push(message))
  const hand = (seq: number, handle = {
    isClosed: false,
    close () {
      this.isClosed = true
    }
  }): { isClosed: boolean } => {
    child.send({ act: 'newconn', seq } as never, handle as never)
    return handle
  }
  return { child, received, hand }
}

t.test('connections that a worker received but had not accepted are closed with it', async t => {
  const { child, hand } = childOf()
  const [taken, queued] = [hand(1), hand(2)]
  child.emit('internalMessage', { cmd: 'NODE_CLUSTER', ack: 1, accepted: true })
  child.emit('exit', 1, null)
  t.same([taken.isClosed, queued.isClosed], [false, true])
})

t.test('a connection that finds no descriptor goes to another worker once, and is then closed', async t => {
  const sentBack = new WeakSet()
  const [first, second] = [childOf(sentBack), childOf(sentBack)]
  const handle = first.hand(7)
  first.child.emit('internalMessage', { cmd: 'NODE_HANDLE_NACK' })
  t.match(first.received, [{ cmd: 'NODE_CLUSTER', ack: 7, accepted: false }, { cmd: 'NODE_HANDLE_NACK' }])
  second.child.send({ act: 'newconn', seq: 9 } as never, handle as never)
  second.child.emit('internalMessage', { cmd: 'NODE_HANDLE_NACK' })
  t.match(second.received, [{ cmd: 'NODE_CLUSTER', ack: 9, accepted: true }, {}])
  t.equal(handle.isClosed, false, 'node:cluster closes accepted connections')
  first.child.emit('exit', 1, null)
  t.equal(handle.isClosed, false, 'nothing stays pending')
})

t.test('a process that failed to start is handed nothing', async t => {
  t.doesNotThrow(() => {
    closeUnacceptedConnections(new EventEmitter() as unknown as ChildProcess, new WeakSet())
  })
})
