import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { prettyLine } from '../src/app/log.js'
import { tableItemLookup } from './support/client.js'
import { varveAtSandbox } from './support/varve.js'

const page = readFileSync(join(import.meta.dirname, '../docs/logs.md'), 'utf8')
const section = page.slice(page.indexOf('## Access lines'))
const rows = [...section.matchAll(/^\| `(\w+)` \| (string|number) \| (.+?) \| .+ \|$/gm)].map((
  [, field = '', type = '', when = '']
) => ({ field, type, when, isAlways: when === 'always' }))
const modules = '/v1/accounts/0x1/modules?ledger_version=2000&limit=1'
const ofEveryLine = ['level', 'time', 'pid', 'hostname']
const requestHeaders = {
  traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  authorization: 'Bearer k-wallet-52',
  'user-agent': 'wallet/1.0'
}

t.test('access lines have the fields of docs/logs.md, in its order, with its types and conditions', async t => {
  const { varve } = await varveAtSandbox(t, { prunedBlocks: 0 }, {
    log: { access: true, clientAddress: true },
    clients: { keys: [{ name: 'wallet', key: 'k-wallet-52', requestsPerSecond: null }] }
  })
  for (const headers of [{}, requestHeaders]) {
    for (
      const target of [
        modules,
        modules,
        '/v1/accounts/0x1/modules',
        '/v1',
        '/v1/info',
        '/v1/accounts/xyz/modules',
        '/nowhere'
      ]
    ) await varve.get(target, { headers })
    await varve.get('/v1/tables/0x5eed/item?ledger_version=2000', {
      ...tableItemLookup('u64', '"1"'),
      headers: { ...headers, 'content-type': 'application/json' }
    })
    for (const method of ['HEAD', 'OPTIONS', 'DELETE']) await varve.get(modules, { method, headers })
  }
  const lines = varve.log.filter(({ msg }) => msg === 'request completed')
  t.equal(lines.length, 22)
  for (const line of lines) {
    t.same(Object.keys(line), [...ofEveryLine, ...rows.map(({ field }) => field)].filter(field => field in line))
    for (const { field, type, isAlways } of rows) {
      if (isAlways || field in line) t.type(line[field], type, `${field} of ${JSON.stringify(line)}`)
    }
    t.match(line['cacheStatus'], /^varve; /)
  }
  // A stream without a length has a test of its own.
  for (const { field, when, isAlways } of rows) {
    t.equal(lines.every(line => field in line), isAlways || when.startsWith('unless'), field)
  }
  for (const { field } of rows) t.ok(lines.some(line => field in line), field)
})

t.test('the example lines of docs/logs.md are valid access lines', async t => {
  const documented = [...page.matchAll(/^\{.+\}$/gm)].map(([line]) => JSON.parse(line) as Record<string, unknown>)
  t.same(documented.map(line => Object.keys(line)), [[...ofEveryLine, 'url', 'adminUrl', 'msg'], [
    ...ofEveryLine,
    ...rows.filter(({ when }) => !when.includes('unless `log.')).map(({ field }) => field)
  ]])
  const [, pretty = ''] = /```text\n(.*)\n/.exec(page) ?? []
  t.equal(prettyLine(JSON.stringify(documented[0]), false).replace(/^.{8}/, ''), `${pretty.replace(/^.{8}/, '')}\n`)
})
