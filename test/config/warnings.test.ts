import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { configSchema } from '../../src/config/schema.js'
import { warningsOf } from '../../src/config/start-checks.js'
import { runCommand, startCommand } from '../cli/command.js'
import { varveAtSandbox } from '../support/varve.js'

const sandbox = { VARVE_SANDBOX: '1' }
const openAdmin = /reachable from other machines.*no admin\.token.*metrics and status/

t.test('an admin listener that other machines reach without a token causes a warning', async t => {
  const warnings = (admin: object): readonly object[] => warningsOf(configSchema.parse({ admin }))
  for (
    const listen of [
      '0.0.0.0:9464',
      '[::]:0',
      '10.0.0.7:9464',
      '[fd00::1]:9464',
      '[::ffff:10.0.0.7]:1',
      'varve.example:9464',
      'localhost.example:1'
    ]
  ) {
    t.match(warnings({ listen }), [{ key: 'admin.listen', message: openAdmin }], listen)
    t.same(warnings({ listen, token: 'secret' }), [], `${listen} with a token`)
  }
  for (
    const listen of [
      '127.0.0.1:9464',
      '127.8.9.1:0',
      '[::1]:9464',
      '[::ffff:127.0.0.1]:1',
      'localhost:9464',
      'LOCALHOST:1',
      'a.localhost:1'
    ]
  ) {
    t.same(warnings({ listen }), [], listen)
  }
})

for (const workers of [1, 2]) {
  t.test(`the warning is logged once at the start, with ${workers} worker(s)`, async t => {
    const at = async (admin: object) =>
      (await varveAtSandbox(t, {}, { workers, admin })).varve.log.filter(({ level }) => level === 40)
    t.match(await at({ listen: '0.0.0.0:0' }), [{ key: 'admin.listen', msg: openAdmin }])
    if (workers === 1) t.same(await at({ listen: '0.0.0.0:0', token: 'secret' }), [])
  })
}

t.test('varve check prints warnings on stderr, still prints the settings and ends with 0', async t => {
  t.match(await runCommand(t, ['check'], { ...sandbox, VARVE_ADMIN: '0.0.0.0:9464' }), {
    code: 0,
    out: /^admin:\n {2}listen: 0\.0\.0\.0:9464$/m,
    err: /^varve: warning: admin\.listen: .*reachable from other machines.*\n$/
  })
  t.match(await runCommand(t, ['check'], sandbox), { code: 0, err: '' })
})

t.test('more workers than twice the processors are a warning, of check and of serve', async t => {
  const processors = availableParallelism()
  const few = t.testdir({ 'v.yaml': `workers: ${2 * processors}` })
  t.match(await runCommand(t, ['check', join(few, 'v.yaml')], sandbox), { code: 0, err: '' })
  const { err } = await runCommand(t, ['check'], { ...sandbox, VARVE_WORKERS: String(2 * processors + 1) })
  t.match(err, /^varve: warning: workers: \d+ workers share \d+ processors?: .*lower workers\n$/)
  // No machine has this address, so the start fails before a worker runs.
  const served = startCommand(t, ['--sandbox', '--workers', String(2 * processors + 1), '--admin', '192.0.2.1:1'])
  t.equal(await served.code, 1)
  const logged = served.log().filter(({ key }) => key === 'workers')
  t.match(logged, [{ level: 40, msg: /^\d+ workers share \d+ processors?: / }])
})
