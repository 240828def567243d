import t from 'tap'
import { clientAddressOf, clientNetworkOf, type RequestSource } from '../../src/http/client-address.js'

const from = (remoteAddress: string | undefined, ip = remoteAddress): RequestSource =>
  ({ ip, socket: { remoteAddress } }) as never

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
      [clientAddressOf(from(remote)), clientNetworkOf(from(remote))],
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
    t.same(
      [clientAddressOf(from('10.0.0.1', written)), clientNetworkOf(from('10.0.0.1', written))],
      [address, client],
      written
    )
  }
})
