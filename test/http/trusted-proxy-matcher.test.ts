import t from 'tap'
import { trustedProxyCheck } from '../../src/http/client-address.js'

t.test('a proxy is trusted by address, network or network name, however its address is written', async t => {
  const cases: Array<[trusted: string[], written: string, isTrusted: boolean]> = [
    [['10.0.0.5'], '10.0.0.5', true],
    [['10.0.0.5'], '10.0.0.5:4711', true],
    [['10.0.0.5'], '::ffff:10.0.0.5', true],
    [['10.0.0.5'], '::ffff:a00:5', true],
    [['10.0.0.5'], '10.0.0.6', false],
    [['::ffff:10.0.0.5'], '10.0.0.5', true],
    [['::ffff:10.0.0.0/104'], '10.9.9.9', true],
    [['10.0.0.0/8', '192.168.1.1'], '10.255.0.1', true],
    [['10.0.0.0/8', '192.168.1.1'], '192.168.1.2', false],
    [['2001:db8::/32'], '2001:DB8:0::1', true],
    [['2001:db8::/32'], '[2001:db8::1]:80', true],
    [['2001:db8::1'], '2001:db8::2', false],
    [['fe80::/10'], 'fe80::1%eth0', true],
    [['loopback'], '127.9.9.9', true],
    [['loopback'], '::1', true],
    [['linklocal'], '169.254.3.4', true],
    [['uniquelocal'], 'fd00::1', true],
    [['uniquelocal'], '172.32.0.1', false],
    [['uniquelocal'], 'unknown', false],
    [['uniquelocal'], '', false],
    [[], '127.0.0.1', false]
  ]
  for (const [trusted, written, isTrusted] of cases) {
    t.equal(trustedProxyCheck(trusted)(written), isTrusted, `${trusted.join()} ${written}`)
  }
})
