import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { setTimeout as pause } from 'node:timers/promises'
import { ask } from '../support/client.js'
import { ok, stamps, stubNode } from '../support/stub-node.js'
import { start } from '../cli/command.js'

t.jobs = 6
const together = { buffered: true }
const free = ['--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0']
const unhandled = (text: string, kind: string): string | undefined =>
  new RegExp(`^varve_unhandled_total\\{kind="${kind}"\\} (\\d+)$`, 'm').exec(text)?.[1]

t.test(
  'a second signal ends varve at once with the code of that signal, and one that comes with the first, as from a terminal and npm, is the same word',
  together,
  async t => {
    const node = await stubNode(t, (_request, response) => {
      ok(response, '[]')
    })
    for (const [signal, code] of [['SIGTERM', 143], ['SIGINT', 130]] as const) {
      const varve = start(t, ['--upstream', node.url, ...free])
      await varve.saw(/the node answers/)
      varve.signal('SIGTERM')
      varve.signal('SIGTERM')
      await pause(60)
      t.notOk(varve.hasExited(), 'nobody has said it twice')
      varve.signal(signal)
      t.equal(await varve.exited, code)
    }
  }
)

t.test('a second signal ends varve while it starts, and a terminal that is gone counts as one', together, async t => {
  const silent = createServer(() => {}).listen(0, '127.0.0.1')
  await once(silent, 'listening')
  t.teardown(() => silent.close())
  const { port } = silent.address() as { port: number }
  const varve = start(t, ['--upstream', `http://127.0.0.1:${port}`, ...free], {
    isTerminal: true,
    hasLostTerminal: true
  })
  await varve.saw(/listening/)
  varve.signal('SIGHUP')
  await pause(60)
  varve.signal('SIGHUP')
  t.equal(await varve.exited, 129)
  t.notMatch(varve.out(), /stopping/, 'it was still starting')
})

t.test(
  'a promise that fails for nobody is logged without secrets and counted, and varve goes on',
  together,
  async t => {
    const node = await stubNode(t, (_request, response) => {
      ok(response, '[]')
    })
    const config = join(
      t.testdir({
        'v.yaml': `upstreams: [{ url: "${node.url}", headers: { authorization: "Bearer s3cret-key" } }]\ncache: { ` +
          'redis: { url: "redis://:r3dis-pass@127.0.0.1:9" } }\nadmin: { listen: "127.0.0.1:0", token: ' +
          'adm1n-t0ken }'
      }),
      'v.yaml'
    )
    const varve = start(t, ['--config', config, '--listen', '127.0.0.1:0'])
    const [, adminUrl = ''] = await varve.saw(/"adminUrl":"(\S+?)"/)
    await varve.saw(/the node answers/)
    t.match(await ask(adminUrl, '/readyz'), { status: 200 })
    varve.fault(
      'rejection',
      new Error('redis://:r3dis-pass@127.0.0.1:9 or Bearer s3cret-key', { cause: new TypeError('adm1n-t0ken') })
    )
    varve.fault('rejection', 'no error, but s3cret-key')
    varve.fault('rejection', Object.create(null))
    varve.fault(
      'rejection',
      Object.defineProperty(new Error('x'), 'message', {
        get: () => {
          throw new Error('y')
        }
      })
    )
    t.match(varve.log().filter(({ level }) => level === 50), [
      {
        msg: /nobody waited for/,
        err: { type: 'Error', message: /^redis:\/\/:\*\*\*@127\.0\.0\.1:9 or \*\*\*: \*\*\*$/ }
      },
      { err: { message: 'no error, but ***' } },
      { err: { message: /null prototype/ } },
      { err: { message: 'what was thrown cannot be told' } }
    ])
    t.notMatch(varve.out() + varve.err(), /s3cret|adm1n|r3dis/)
    const { body } = await ask(adminUrl, '/metrics')
    t.same([unhandled(body, 'rejection'), unhandled(body, 'exception'), unhandled(body, 'request')], ['4', '0', '0'])
    t.notOk(varve.hasExited())
  }
)

t.test(
  'an error that nobody caught ends varve with 1 when what was under way has been answered, and one fatal line and one sentence without secrets say why',
  together,
  async t => {
    let answer = (): void => {}
    let tell = (): void => {}
    const asked = new Promise<void>(resolve => {
      tell = resolve
    })
    const node = await stubNode(t, (request, response) => {
      if (request.url?.includes('modules') !== true) return response.writeHead(404, stamps()).end()
      answer = () => {
        ok(response, '[]')
      }
      return tell()
    })
    const config = join(
      t.testdir({ 'v.yaml': `upstreams: [{ url: "${node.url}", headers: { authorization: "Bearer s3cret-key" } }]` }),
      'v.yaml'
    )
    const varve = start(t, ['--config', config, ...free])
    const [, publicUrl = ''] = await varve.saw(/"url":"(\S+?)"/)
    await varve.saw(/the node answers/)
    const read = ask(publicUrl, '/v1/accounts/0x1/modules?ledger_version=500')
    await asked
    varve.fault('exception', new Error('sent s3cret-key'))
    varve.fault('exception', new Error('and again'))
    answer()
    t.match(await read, { status: 200 })
    t.equal(await varve.exited, 1)
    t.match(varve.log().filter(({ level }) => level === 60), [{
      err: { message: 'sent ***', stack: /faults\.test/ },
      msg: /in doubt: it ends/
    }])
    t.equal(varve.log().filter(({ level }) => level === 60).length, 1)
    t.equal(varve.err(), 'varve: ends, since an error that nobody caught leaves its state in doubt: sent ***\n')
    t.notMatch(varve.out(), /s3cret/)
  }
)

t.test('an error that nobody caught while varve starts ends it at once', together, async t => {
  const silent = createServer(() => {}).listen(0, '127.0.0.1')
  await once(silent, 'listening')
  t.teardown(() => silent.close())
  const varve = start(t, ['--upstream', `http://127.0.0.1:${(silent.address() as { port: number }).port}`, ...free])
  await varve.saw(/"msg":"listening"/)
  varve.fault('exception', new Error('nobody foresaw this'))
  t.equal(await varve.exited, 1)
})

t.test('a start that fails says why without the secrets that the reason quotes', together, async t => {
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  t.teardown(() => taken.close())
  const { port } = taken.address() as { port: number }
  const config = join(
    t.testdir({ 'v.yaml': `upstreams: [{ url: "http://127.0.0.1:9", headers: { x: "127.0.0.1:${port}" } }]` }),
    'v.yaml'
  )
  const varve = start(t, ['--config', config, '--listen', `127.0.0.1:${port}`, '--admin', '127.0.0.1:0'])
  t.equal(await varve.code, 1)
  t.match(varve.err(), /^varve: cannot listen on \*\*\* \(listen\): .*EADDRINUSE.*\n$/)
})
