import t from 'tap'
import { UpstreamFailure } from '../../src/upstreams/upstream-failure.js'

t.test('running out of local resources is no failure of the upstream: the request was never sent', async t => {
  for (const code of ['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EADDRNOTAVAIL']) {
    t.equal(UpstreamFailure.of('n', Object.assign(new Error('connect'), { code })).reason, 'exhausted', code)
  }
  t.equal(UpstreamFailure.of('n', Object.assign(new Error('connect'), { code: 'EHOSTUNREACH' })).reason, 'unreachable')
})
