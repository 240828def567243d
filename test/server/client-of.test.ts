import { type IncomingMessage } from 'node:http'
import t from 'tap'
import { addressOf, clientOf } from '../../src/server/client-of.js'

const from = (remoteAddress: string | undefined): IncomingMessage => ({ socket: { remoteAddress } }) as never

t.test('a client is an IPv4 address, or the half of an IPv6 address that is one customer\'s', async t => {
  const cases: Array<[shown: string | undefined, address: string | undefined, client: string | undefined]> = [
    ['127.0.0.1', '127.0.0.1', '127.0.0.1'],
    ['::ffff:10.0.0.1', '10.0.0.1', '10.0.0.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8::6', '2001:db8::6', '2001:db8:0:0::/64'],
    ['2001:db8:1:2::', '2001:db8:1:2::', '2001:db8:1:2::/64'],
    ['::1', '::1', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80::1%eth0', 'fe80:0:0:0::/64'],
    [undefined, undefined, undefined]
  ]
  for (const [shown, address, client] of cases) t.same([addressOf(from(shown)), clientOf(from(shown))], [address, client], shown ?? 'one that has left')
})
