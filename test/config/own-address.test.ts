import { join } from 'node:path'
import t from 'tap'
import { ownAddressMistakes } from '../../src/config/start-checks.js'
import { configSchema } from '../../src/config/schema.js'
import { runCommand } from '../cli/command.js'

const interfaces = (): Array<
  { address: string }
> => [{ address: '127.0.0.1' }, { address: '10.1.2.3' }, { address: 'fd00::1' }]

/** Returns the keys of the listeners that an upstream with this URL would reach. */
function keysOf (url: string, listen: string, admin = '127.0.0.1:9464'): string[] {
  const config = configSchema.parse({
    listen,
    admin: { listen: admin },
    upstreams: [{ url: 'http://node.example' }, { url }]
  })
  return ownAddressMistakes(config, interfaces).map(({
    path,
    message
  }) => `${path} ${/ varve's own \((\S+)\)/.exec(message)?.[1] ?? ''}`)
}

t.test('an upstream URL that reaches varve\'s own listener is rejected, with any form of its host', async t => {
  const own: Array<[string, string]> = [
    ['http://127.0.0.1:8080', '127.0.0.1:8080'],
    ['http://localhost:8080/prefix', '127.0.0.1:8080'],
    ['http://127.0.0.1:8080', 'localhost:8080'],
    ['http://[::1]:8080', 'localhost:8080'],
    ['http://0.0.0.0:8080', '127.0.0.1:8080'],
    ['http://[::]:8080', '[::1]:8080'],
    ['http://LOCALHOST.:8080', 'localhost:8080'],
    ['http://127.1:8080', '127.0.0.1:8080'],
    ['http://[::ffff:127.0.0.1]:8080', '127.0.0.1:8080'],
    ['http://[0:0::1]:8080', '[::1]:8080'],
    ['http://127.0.0.1:8080', '0.0.0.0:8080'],
    ['http://localhost:8080', '0.0.0.0:8080'],
    ['http://[::1]:8080', '0.0.0.0:8080'],
    ['http://127.0.0.9:8080', '0.0.0.0:8080'],
    ['http://127.0.0.1:8080', '[::]:8080'],
    ['http://10.1.2.3:8080', '0.0.0.0:8080'],
    ['http://[fd00:0::1]:8080', '[::]:8080'],
    ['http://varve.example:8080', 'varve.example:8080'],
    ['http://127.0.0.1', '0.0.0.0:80'],
    ['https://127.0.0.1', '127.0.0.1:443']
  ]
  for (const [url, listen] of own) t.same(keysOf(url, listen), ['upstreams.1.url listen'], `${url} at ${listen}`)
  t.same(keysOf('http://localhost:9464', '127.0.0.1:8080'), ['upstreams.1.url admin.listen'])
})

t.test('an upstream at another port, or another address of this machine, is accepted', async t => {
  const other: Array<[string, string]> = [
    ['http://127.0.0.1:8081', '127.0.0.1:8080'],
    ['http://127.0.0.2:8080', '127.0.0.1:8080'],
    ['http://10.1.2.3:8080', '127.0.0.1:8080'],
    ['http://10.9.9.9:8080', '0.0.0.0:8080'],
    ['http://node:8080', '0.0.0.0:8080'],
    ['http://127.0.0.1:8080', '10.1.2.3:8080'],
    ['http://[::1]:8080', '127.0.0.1:8080'],
    ['https://127.0.0.1', '0.0.0.0:80'],
    ['http://127.0.0.1:80', '127.0.0.1:0']
  ]
  for (const [url, listen] of other) t.same(keysOf(url, listen), [], `${url} at ${listen}`)
})

t.test('serve and check reject varve\'s own address as upstream, and explain accepts it', async t => {
  const dir = t.testdir({ 'v.yaml': 'listen: 0.0.0.0:18080\nupstreams: [{ url: "http://localhost:18080/s3cret" }]' })
  const config = join(dir, 'v.yaml')
  const expected = `varve: the configuration in ${config} has a mistake:\n` +
    `  ${config}:2:20: ` +
    'upstreams.0.url: expected the address of a full node, got varve\'s own (listen): ' +
    'correct the URL, or choose another address for varve with --listen or listen\n'
  t.same(await runCommand(t, ['check', config]), { code: 2, out: '', err: expected })
  t.same(await runCommand(t, ['serve', '--config', config]), { code: 2, out: '', err: expected })
  t.match(await runCommand(t, ['serve', '--upstream', 'http://127.0.0.1:9464']), {
    code: 2,
    out: '',
    err:
      /^ {2}upstreams\.0\.url \(from --upstream\): .* got varve's own \(admin\.listen\): .* --admin or admin\.listen$/m
  })
  t.match(await runCommand(t, ['explain', 'GET', '/v1', '--config', config]), { code: 0, err: '' })
})
