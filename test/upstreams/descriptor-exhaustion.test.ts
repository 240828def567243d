import net from 'node:net'
import t from 'tap'
import { respondOk, startStubUpstream } from '../support/stub-upstream.js'
import { varveAt } from '../support/varve.js'

t.test('running out of file descriptors rejects the read; the upstream stays up and unthrottled', async t => {
  for (const code of ['EMFILE', 'ENFILE']) {
    const stub = await startStubUpstream(t, (_request, response) => {
      response.setHeader('connection', 'close')
      respondOk(response, '[]')
    })
    const varve = await varveAt(t, stub.url, { head: { pollMs: 50 } })
    await varve.get('/v1/accounts/0x1/modules?ledger_version=500')
    const original = net.connect
    net.connect = () => {
      const socket = new net.Socket()
      process.nextTick(() => {
        socket.destroy(Object.assign(new Error(`connect ${code}`), { code }))
      })
      return socket
    }
    t.teardown(() => {
      net.connect = original
    })
    const statuses = await Promise.all(
      Array.from(
        { length: 30 },
        async (_, at) => (await varve.get(`/v1/accounts/0x1/modules?ledger_version=${600 + at}`)).status
      )
    )
    t.ok(statuses.filter(status => status === 503).length >= 20, statuses.join(' '))
    const without = await varve.metric(
      'varve_upstream_requests_total{upstream="node",endpoint="account_modules",status="exhausted"}'
    )
    t.ok(Number(without) >= 20)
    t.equal(await varve.metric('varve_upstream_up{upstream="node"}'), 1)
    net.connect = original
    t.equal((await varve.get('/v1/accounts/0x1/modules?ledger_version=700')).status, 200)
  }
})
