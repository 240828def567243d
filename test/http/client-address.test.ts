import { fastify } from 'fastify'
import t from 'tap'
import { clientAddressOf, networkOf, type RequestSource, trustedProxyCheck } from '../../src/http/client-address.js'

const from = (remoteAddress: string | undefined, forwarded?: string): RequestSource =>
  ({ headers: { 'x-forwarded-for': forwarded }, socket: { remoteAddress } }) as never
const isTrusted = trustedProxyCheck(['10.0.0.0/8'])

t.test('a client is an IPv4 address or the /64 network of an IPv6 address', async t => {
  const cases: Array<[remote: string | undefined, address: string | undefined, client: string | undefined]> = [
    ['127.0.0.1', '127.0.0.1', '127.0.0.1'],
    ['::ffff:10.0.0.1', '10.0.0.1', '10.0.0.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8::6', '2001:db8::6', '2001:db8:0:0::/64'],
    ['2001:db8:1:2::', '2001:db8:1:2::', '2001:db8:1:2::/64'],
    ['::1', '::1', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80::1', 'fe80:0:0:0::/64'],
    [undefined, undefined, undefined]
  ]
  for (const [remote, address, client] of cases) {
    t.same(
      [clientAddressOf(from(remote)), networkOf(clientAddressOf(from(remote)))],
      [address, client],
      remote ?? 'one that has left'
    )
  }
})

t.test('an address from a trusted proxy is read in any notation, and anything else is ignored', async t => {
  const cases: Array<[written: string, address: string, client: string]> = [
    ['203.0.113.9', '203.0.113.9', '203.0.113.9'],
    ['203.0.113.9:4711', '203.0.113.9', '203.0.113.9'],
    ['[2001:db8:1:2::9]:4711', '2001:db8:1:2::9', '2001:db8:1:2::/64'],
    ['[2001:DB8::9]', '2001:DB8::9', '2001:db8:0:0::/64'],
    ['2001:0db8:0001:0002:0000:0000:0000:0009', '2001:0db8:0001:0002:0000:0000:0000:0009', '2001:db8:1:2::/64'],
    ['::FFFF:203.0.113.9', '203.0.113.9', '203.0.113.9'],
    ['unknown', '10.0.0.1', '10.0.0.1'],
    ['_hidden', '10.0.0.1', '10.0.0.1'],
    ['203.0.113.999', '10.0.0.1', '10.0.0.1'],
    ['', '10.0.0.1', '10.0.0.1']
  ]
  for (const [written, address, client] of cases) {
    const found = clientAddressOf(from('10.0.0.1', written), isTrusted)
    t.same([found, networkOf(found)], [address, client], written)
  }
})

t.test('the first address that no trusted proxy vouches for is the client, as Fastify finds it', async t => {
  const app = fastify({ trustProxy: isTrusted })
  app.get('/', ({ ip }) => ip)
  const hops = ['10.0.0.2', '203.0.113.9', '198.51.100.7', ' ', '10.0.0.3 ']
  for (const remote of ['10.0.0.1', '192.0.2.1']) {
    for (let nth = 0; nth < hops.length ** 3; nth++) {
      const written = [nth, nth / hops.length, nth / hops.length ** 2].map(at => hops[Math.floor(at) % hops.length])
      const forwarded = written.join(',')
      const { body } = await app.inject({ url: '/', remoteAddress: remote, headers: { 'x-forwarded-for': forwarded } })
      t.equal(clientAddressOf(from(remote, forwarded), isTrusted), body, `${remote} after ${forwarded}`)
    }
  }
})

t.test('without a trusted proxy nothing that a client says about its address is believed', async t => {
  t.equal(clientAddressOf(from('10.0.0.1', '203.0.113.9')), '10.0.0.1')
})
