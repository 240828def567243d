import t from 'tap'
import { type SentMessage } from '../../src/peers/messages.js'
import { noCarrier, Peers } from '../../src/peers/peers.js'

t.test('a message of another configuration, release or space is dropped, whatever carries it', async t => {
  const own = { configuration: 'a', release: '1.0.0', space: 'one' }
  const sent: SentMessage[] = []
  let receive = (_message: SentMessage): void => {}
  const peers = new Peers({
    ...noCarrier,
    publish: message => sent.push(message),
    subscribe: onMessage => {
      receive = onMessage
    }
  }, () => own)
  const got: unknown[] = []
  peers.subscribe(message => got.push(message))
  const head = { kind: 'digests', source: 'x' } as const
  peers.publish(head)
  t.same(sent, [{ ...own, ...head }], 'each message names what it is about')
  for (const other of [{ configuration: 'b' }, { release: '1.0.1' }, { space: 'two' }]) {
    receive({ ...own, ...head, ...other })
    t.same(got, [], `of another ${Object.keys(other).join('')}`)
  }
  receive({ ...head, space: 'one' })
  receive({ kind: 'changed', space: 'two', resetFrom: 'one' })
  receive({ kind: 'changed', release: '1.0.1' })
  t.match(got, [head, { kind: 'changed', resetFrom: 'one' }], 'a change of space is news to a process in another one')
})
