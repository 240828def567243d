import t from 'tap'
import { NodeFailure } from '../../src/upstreams/node-failure.js'

t.test('what this machine has run out of says nothing of the node: the question was never sent', async t => {
  for (const code of ['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EADDRNOTAVAIL']) {
    t.equal(NodeFailure.of('n', Object.assign(new Error('connect'), { code })).reason, 'exhausted', code)
  }
  t.equal(NodeFailure.of('n', Object.assign(new Error('connect'), { code: 'EHOSTUNREACH' })).reason, 'unreachable')
})
