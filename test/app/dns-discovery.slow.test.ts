import { join } from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { startSandbox } from '#sandbox'
import { startServing } from '../../src/app/start-serving.js'
import { configSchema } from '../../src/config/schema.js'
import { sendRequest } from '../support/client.js'
import { until } from '../support/until.js'

t.test('workers follow the addresses of a name without a restart', async t => {
  const first = await startSandbox({ blockMs: 0, prunedBlocks: 0, host: '127.0.0.1' })
  const port = Number(new URL(first.url).port)
  const second = await startSandbox({ blockMs: 0, prunedBlocks: 0, host: '127.0.0.2', port })
  let addresses = ['127.0.0.1']
  const config = configSchema.parse({
    listen: '127.0.0.1:0',
    admin: { listen: '127.0.0.1:0' },
    log: { level: 'silent' },
    workers: 2,
    head: { pollMs: 100 },
    hedge: { share: 0 },
    upstreams: [{ name: 'nodes', url: `http://nodes.example:${port}`, resolve: 'all' }]
  })
  const program = { file: join(import.meta.dirname, '../../dist/cli.js'), flags: [] }
  const varve = await startServing({ config, isSandbox: false }, pino({ level: 'silent' }), program, undefined, {
    resolve: async () => addresses.map(address => ({ address, family: 4 })),
    everyMs: 100
  })
  t.teardown(async () => {
    await varve.stop({ drainMs: 0 })
    await Promise.all([first.close(), second.close()])
  })
  const status = async (): Promise<{ upstreams: object[], workers: Array<{ pid: number }> }> =>
    JSON.parse((await sendRequest(varve.adminUrl, '/status.json')).body) as never
  const pids = async (): Promise<string> => (await status()).workers.map(({ pid }) => pid).sort().join()
  await until(async () => (await pids()).includes(','), 'both workers answer')
  const before = await pids()
  t.match((await status()).upstreams, [{ name: 'nodes-1', state: 'up' }])
  addresses = ['127.0.0.1', '127.0.0.2']
  await until(async () => {
    const { upstreams } = await status()
    return upstreams.length === 2 && upstreams.every(one => (one as { state: string }).state === 'up')
  }, 'the second address is up')
  addresses = ['127.0.0.2']
  await until(async () => (await status()).upstreams.length === 1, 'the first has left')
  first.requests.reset()
  for (let version = 2000; version < 2008; version++) {
    t.match(await sendRequest(varve.url, `/v1/accounts/0x1/modules?limit=1&ledger_version=${version}`), { status: 200 })
  }
  t.equal(first.requests.countFor('account_modules'), 0)
  t.equal(await pids(), before, 'the workers and their caches stay')
})
