import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { setTimeout as pause } from 'node:timers/promises'
import { Deferred } from '../../src/peers/deferred.js'
import { sendRequest } from '../support/client.js'
import { respondOk, stamps, startStubUpstream } from '../support/stub-upstream.js'
import { startCommand } from '../cli/command.js'
import { together } from '../support/together.js'

t.jobs = 6
// Creates an object per test: tap writes into it, so tests with one object would run the same callback.
const free = ['--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0']
const unhandled = (text: string, kind: string): string | undefined =>
  new RegExp(`^varve_unhandled_total\\{kind="${kind}"\\} (\\d+)$`, 'm').exec(text)?.[1]

t.test(
  'a second signal ends varve at once with its code; an immediate repeat counts as the same',
  together(),
  async t => {
    const upstream = await startStubUpstream(t, (_request, response) => {
      respondOk(response, '[]')
    })
    for (const [signal, code] of [['SIGTERM', 143], ['SIGINT', 130]] as const) {
      const varve = startCommand(t, ['--upstream', upstream.url, ...free])
      await varve.waitForOutput(/upstream is up/)
      varve.signal('SIGTERM')
      varve.signal('SIGTERM')
      await pause(250)
      t.notOk(varve.hasExited(), 'the signal was not repeated')
      varve.signal(signal)
      t.equal(await varve.exited, code)
    }
  }
)

t.test('a second signal ends varve while it starts, and a closed terminal counts as one', together(), async t => {
  const silent = createServer(() => {}).listen(0, '127.0.0.1')
  await once(silent, 'listening')
  t.teardown(() => silent.close())
  const { port } = silent.address() as { port: number }
  const varve = startCommand(t, ['--upstream', `http://127.0.0.1:${port}`, ...free], {
    isTerminal: true,
    hasLostTerminal: true
  })
  await varve.waitForOutput(/listening/)
  varve.signal('SIGHUP')
  await pause(250)
  varve.signal('SIGHUP')
  t.equal(await varve.exited, 129)
  t.notMatch(varve.out(), /stopping/, 'varve was still starting')
})

t.test(
  'an unhandled rejection is logged without secrets and counted, and varve continues',
  together(),
  async t => {
    const upstream = await startStubUpstream(t, (_request, response) => {
      respondOk(response, '[]')
    })
    const config = join(
      t.testdir({
        'v.yaml':
          `upstreams: [{ url: "${upstream.url}", headers: { authorization: "Bearer s3cret-key" } }]\ncache: { ` +
          'redis: { url: "redis://:r3dis-pass@127.0.0.1:9" } }\nadmin: { listen: "127.0.0.1:0", token: ' +
          'adm1n-t0ken }'
      }),
      'v.yaml'
    )
    const varve = startCommand(t, ['--config', config, '--listen', '127.0.0.1:0'])
    const [, adminUrl = ''] = await varve.waitForOutput(/"adminUrl":"(\S+?)"/)
    await varve.waitForOutput(/upstream is up/)
    t.match(await sendRequest(adminUrl, '/readyz'), { status: 200 })
    varve.raiseFault(
      'rejection',
      new Error('redis://:r3dis-pass@127.0.0.1:9 or Bearer s3cret-key', { cause: new TypeError('adm1n-t0ken') })
    )
    varve.raiseFault('rejection', 'no error, but s3cret-key')
    varve.raiseFault('rejection', Object.create(null))
    varve.raiseFault(
      'rejection',
      Object.defineProperty(new Error('x'), 'message', {
        get: () => {
          throw new Error('y')
        }
      })
    )
    t.match(varve.log().filter(({ level }) => level === 50), [
      {
        msg: /unhandled rejection/,
        err: { type: 'Error', message: /^redis:\/\/:\*\*\*@127\.0\.0\.1:9 or \*\*\*: \*\*\*$/ }
      },
      { err: { message: 'no error, but ***' } },
      { err: { message: /null prototype/ } },
      { err: { message: 'the thrown value cannot be printed' } }
    ])
    t.notMatch(varve.out() + varve.err(), /s3cret|adm1n|r3dis/)
    const { body } = await sendRequest(adminUrl, '/metrics')
    t.same([unhandled(body, 'rejection'), unhandled(body, 'exception'), unhandled(body, 'request')], ['4', '0', '0'])
    t.notOk(varve.hasExited())
  }
)

t.test(
  'an uncaught exception drains varve and ends it with 1 and one fatal line without secrets',
  together(),
  async t => {
    let respond = (): void => {}
    const requested = new Deferred<void>()
    const upstream = await startStubUpstream(t, (request, response) => {
      if (request.url?.includes('modules') !== true) return response.writeHead(404, stamps()).end()
      respond = () => {
        respondOk(response, '[]')
      }
      return requested.resolve()
    })
    const config = join(
      t.testdir({
        'v.yaml': `upstreams: [{ url: "${upstream.url}", headers: { authorization: "Bearer s3cret-key" } }]`
      }),
      'v.yaml'
    )
    const varve = startCommand(t, ['--config', config, ...free])
    const [, publicUrl = ''] = await varve.waitForOutput(/"url":"(\S+?)"/)
    await varve.waitForOutput(/upstream is up/)
    const read = sendRequest(publicUrl, '/v1/accounts/0x1/modules?ledger_version=500')
    await requested.promise
    varve.raiseFault('exception', new Error('sent s3cret-key'))
    varve.raiseFault('exception', new Error('and again'))
    respond()
    t.match(await read, { status: 200 })
    t.equal(await varve.exited, 1)
    t.match(varve.log().filter(({ level }) => level === 60), [{
      err: { message: 'sent ***', stack: /faults\.slow\.test/ },
      msg: /uncaught exception/
    }])
    t.equal(varve.log().filter(({ level }) => level === 60).length, 1)
    t.equal(varve.err(), 'varve: uncaught exception, exiting: sent ***\n')
    t.notMatch(varve.out(), /s3cret/)
  }
)

t.test('an uncaught exception ends varve at once while it starts', together(), async t => {
  const silent = createServer(() => {}).listen(0, '127.0.0.1')
  await once(silent, 'listening')
  t.teardown(() => silent.close())
  const varve = startCommand(t, [
    '--upstream',
    `http://127.0.0.1:${(silent.address() as { port: number }).port}`,
    ...free
  ])
  await varve.waitForOutput(/"msg":"listening"/)
  varve.raiseFault('exception', new Error('an unforeseen error'))
  t.equal(await varve.exited, 1)
})

t.test('a failed start gives its reason without the secrets that the reason quotes', together(), async t => {
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  t.teardown(() => taken.close())
  const { port } = taken.address() as { port: number }
  const config = join(
    t.testdir({ 'v.yaml': `upstreams: [{ url: "http://127.0.0.1:9", headers: { x: "127.0.0.1:${port}" } }]` }),
    'v.yaml'
  )
  const varve = startCommand(t, ['--config', config, '--listen', `127.0.0.1:${port}`, '--admin', '127.0.0.1:0'])
  t.equal(await varve.code, 1)
  t.match(varve.err(), /^varve: cannot listen on \*\*\* \(listen\): .*EADDRINUSE.*\n$/)
})
