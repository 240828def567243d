import t from 'tap'
import { listenError } from '../../src/app/listen-error.js'

t.test('a listen error names address and key, and a fix if the cause is known', async t => {
  const said = (code: string): string =>
    listenError('h:80', { key: 'admin.listen', flag: '--admin' }, Object.assign(new Error(`listen ${code}`), { code }))
      .message
  t.match(
    said('EADDRINUSE'),
    'cannot listen on h:80 (admin.listen): listen EADDRINUSE; stop what listens there, or take another ' +
      'address with --admin'
  )
  t.match(said('EACCES'), '; ports below 1024 need the right to bind them: take a higher one with --admin')
  t.match(said('EADDRNOTAVAIL'), '; this machine does not have that address: 0.0.0.0 with --admin')
  for (const code of ['ENOTFOUND', 'EAI_AGAIN']) {
    t.match(said(code), /; the name leads to no address.*: give one in numbers with --admin$/)
  }
  t.equal(said('EOTHER'), 'cannot listen on h:80 (admin.listen): listen EOTHER')
})
