import t from 'tap'
import { UpstreamFailure } from '../../src/upstreams/upstream-failure.js'

t.test('what this machine has run out of says nothing of the node: the question was never sent', async t => {
  for (const code of ['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EADDRNOTAVAIL']) {
    t.equal(UpstreamFailure.of('n', Object.assign(new Error('connect'), { code })).reason, 'exhausted', code)
  }
  t.equal(UpstreamFailure.of('n', Object.assign(new Error('connect'), { code: 'EHOSTUNREACH' })).reason, 'unreachable')
})
