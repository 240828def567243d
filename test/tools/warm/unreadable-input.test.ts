import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { runCommand } from '../../cli/command.js'
import { startStubUpstream } from '../../support/stub-upstream.js'
import { varveAtSandbox } from '../../support/varve.js'

t.test('text of a foreign response cannot control the terminal that shows it', async t => {
  const odd = await startStubUpstream(t, ({ url = '' }, response) => {
    if (url.includes('/10')) response.writeHead(404).end('\x1b[2J\x07<h1>\r\nnothing here')
    else response.writeHead(302, { location: '/login' }).end()
  })
  t.match(
    (await runCommand(t, ['warm', '--from', '10', '--to', '10', '--url', odd.url])).err,
    /^varve: version 10 cannot be read: the response is 404, {2}\[2J <h1> nothing here; this is not varve/
  )
  t.match(
    (await runCommand(t, ['warm', '--from', '11', '--to', '11', '--url', odd.url])).err,
    /^varve: version 11 cannot be read: the response is 302, with nothing in it; this is not varve/
  )
})

t.test('a missing or unreadable file is named with exit code 2, before anything is fetched', async t => {
  const upstream = await startStubUpstream(t, (_request, response) => {
    response.end()
  })
  const folder = mkdtempSync(join(tmpdir(), 'varve-warm-'))
  t.teardown(() => {
    rmSync(folder, { recursive: true })
  })
  const file = join(folder, 'reads.txt')
  writeFileSync(file, '/v1/accounts/0x1/modules?ledger_version=5\n')
  for (
    const [name, reason] of [[folder, 'a folder, not a file (EISDIR)'], [
      join(folder, 'none.txt'),
      'there is no such file (ENOENT)'
    ]] as const
  ) {
    t.same(await runCommand(t, ['warm', file, name, '--url', upstream.url]), {
      code: 2,
      out: '',
      err: `varve: cannot read ${name}: ${reason}; see varve warm --help\n`
    })
  }
  t.same(upstream.requests, [])
})

t.test('an invalid line is named by file and line, the others are fetched, and the exit code is 1', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, { startVersion: 0n })
  const folder = mkdtempSync(join(tmpdir(), 'varve-warm-'))
  t.teardown(() => {
    rmSync(folder, { recursive: true })
  })
  const [first, second] = [join(folder, 'first.txt'), join(folder, 'second.txt')]
  const read = (at: number): string =>
    `/v1/accounts/0x1/modules?ledger_version=${sandbox.ledger.head.version - BigInt(at)}`
  writeFileSync(first, `${read(1)}\n`)
  writeFileSync(second, `${read(2)}\nwhat is this\n${read(3)}\n`)
  const { code, out, err } = await runCommand(t, ['warm', first, second, '--url', varve.url])
  t.equal(code, 1)
  t.equal(err, '')
  t.match(out, /^3 reads in .*: 0 were cached already, 3 are cached now\n/)
  t.ok(out.endsWith(`\n  1 line is not a request: ${second}:2\n`), out)
})

t.test('a count of one is in the singular', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, { startVersion: 0n })
  const version = String(sandbox.ledger.head.version - 500n)
  const range = ['warm', '--from', version, '--to', version, '--url', varve.url]
  t.match((await runCommand(t, range)).out, /^1 block in .*: 0 were cached already, 1 is cached now\n/)
  t.match((await runCommand(t, range)).out, /^1 block in .*: 1 was cached already, 0 are cached now\n/)
})
