import t from 'tap'
import { listenError } from '../../src/app/listen.js'

t.test('a listen error names address and key, and a fix if the cause is known', async t => {
  const messageOf = (code: string): string =>
    listenError('h:80', { key: 'admin.listen', flag: '--admin' }, Object.assign(new Error(`listen ${code}`), { code }))
      .message
  t.match(
    messageOf('EADDRINUSE'),
    'cannot listen on h:80 (admin.listen): listen EADDRINUSE; stop the process that listens there, ' +
      'or choose another address with --admin'
  )
  t.match(messageOf('EACCES'), '; ports below 1024 need a privilege: choose a higher one with --admin')
  t.match(messageOf('EADDRNOTAVAIL'), '; this machine does not have that address: use --admin with 0.0.0.0')
  for (const code of ['ENOTFOUND', 'EAI_AGAIN']) {
    t.match(messageOf(code), /; DNS lookup failed.* give an IP address with --admin$/)
  }
  t.equal(messageOf('EOTHER'), 'cannot listen on h:80 (admin.listen): listen EOTHER')
})
