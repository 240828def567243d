import t from 'tap'
import { configSchema } from '../../src/config/schema.js'
import { startSandbox } from '#sandbox'
import { sendRequest } from '../support/client.js'
import { until } from '../support/until.js'
import { varveAt } from '../support/varve.js'

t.test('a backup gets reads only while the first choice cannot answer', async t => {
  const [main, backup] = [await startSandbox({ blockMs: 0 }), await startSandbox({ blockMs: 0 })]
  t.teardown(async () => {
    await Promise.all([main.close(), backup.close()])
  })
  const { upstreams } = configSchema.parse({
    upstreams: [{ name: 'backup', url: backup.url, priority: 1 }, { name: 'main', url: main.url }]
  })
  const varve = await varveAt(t, main.url, { upstreams, hedge: { share: 0 } })
  const read = async (version: number): Promise<number> =>
    (await varve.get(`/v1/accounts/0x1/modules?ledger_version=${version}`)).status
  await until(async () => {
    const { body } = await sendRequest(varve.adminUrl, '/status.json')
    return (JSON.parse(body) as { upstreams: Array<{ version?: string }> }).upstreams.every(({ version }) =>
      version !== undefined
    )
  }, 'both windows are known')
  const countAt = (node: typeof main): number => node.requests.countFor('account_modules')
  const versions = Array.from({ length: 20 }, (_, at) => 19_000 + at)
  t.same(await Promise.all(versions.map(read)), versions.map(() => 200))
  t.same([countAt(main), countAt(backup)], [20, 0])
  await main.close()
  t.equal(await read(19_500), 200)
  t.equal(countAt(backup), 1, 'the backup takes over')
})
