import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { startSandbox } from '#sandbox'
import { type TestResponse, sendRequest } from './support/client.js'
import { OpenApiChecker, lintComplaints } from './support/openapi.js'
import { varveAt, varveAtSandbox } from './support/varve.js'

const page = readFileSync(join(import.meta.dirname, '../docs/openapi-admin.yaml'), 'utf8')
const checker = new OpenApiChecker(parse(page))

t.test('an OpenAPI linter finds nothing in docs/openapi-admin.yaml', async t => {
  // Admin routes take no input that could be rejected.
  t.same(await lintComplaints(page, { 'operation-4xx-response': 'off' }), [])
})

t.test('the admin listener responds as docs/openapi-admin.yaml describes, with the same routes', async t => {
  const { varve, sandbox } = await varveAtSandbox(t, {}, { admin: { token: 'secret' }, follow: { mode: 'on' } })
  // The first latest read begins to follow.
  t.equal((await varve.get('/v1/accounts/0x1')).status, 200)
  t.match(JSON.parse((await sendRequest(varve.adminUrl, '/status.json')).body), { follow: { mode: 'on' } })
  const check = (operationId: string, { status, headers, bytes }: TestResponse, wanted: number): void => {
    t.equal(status, wanted, operationId)
    t.same(checker.complaints(operationId, { status, headers, body: bytes }), [], operationId)
  }
  const routes = [
    ...JSON.parse((await sendRequest(varve.adminUrl, '/nothing')).body).message.matchAll(/(?:POST )?\/[a-zA-Z./]+/g)
  ]
    .map(String)
  t.same(
    routes.sort(),
    [...checker.operations.values()].map(({ method, path }) =>
      method === 'get' ? path : `${method.toUpperCase()} ${path.replace('{name}', 'NAME')}`
    ).sort()
  )
  for (const [operationId, { method, path }] of checker.operations) {
    if (method !== 'get') continue
    const got = await sendRequest(varve.adminUrl, path, { headers: { authorization: 'Bearer secret' } })
    check(operationId, got, 200)
  }
  const cordon = async (action: string, name: string, token = 'secret'): Promise<TestResponse> =>
    await sendRequest(varve.adminUrl, `/upstreams/${name}/${action}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` }
    })
  for (const action of ['cordon', 'uncordon']) {
    check(action, await cordon(action, 'node'), 200)
    check(action, await cordon(action, 'nowhere'), 404)
    check(action, await cordon(action, 'node', 'another'), 401)
  }
  const purge = async (body: string, token = 'secret'): Promise<TestResponse> =>
    await sendRequest(varve.adminUrl, '/purge', { method: 'POST', headers: { authorization: `Bearer ${token}` }, body })
  check('purge', await purge('{"url":"/v1/blocks/by_version/5000"}'), 200)
  check('purge', await purge('{"account":"0x1"}'), 200)
  check('purge', await purge('{"all":true}'), 200)
  check('purge', await purge('{"url":"/nothing"}'), 400)
  check('purge', await purge('{"all":true}', 'another'), 401)
  const reload = async (token = 'secret'): Promise<TestResponse> =>
    await sendRequest(varve.adminUrl, '/reload', { method: 'POST', headers: { authorization: `Bearer ${token}` } })
  check('reload', await reload(), 404)
  check('reload', await reload('another'), 401)
  check('config', await sendRequest(varve.adminUrl, '/config'), 401)
  const { varve: open } = await varveAtSandbox(t)
  check('purge', await sendRequest(open.adminUrl, '/purge', { method: 'POST', body: '{"all":true}' }), 403)
  check('config', await sendRequest(open.adminUrl, '/config'), 403)
  check('cordon', await sendRequest(open.adminUrl, '/upstreams/node/cordon', { method: 'POST' }), 403)
  check('reload', await sendRequest(open.adminUrl, '/reload', { method: 'POST' }), 403)
  await open.stop({ drainMs: 0 })
  await sandbox.close()
})

t.test('without an upstream the admin listener responds as documented', async t => {
  const dead = await startSandbox()
  await dead.close()
  const varve = await varveAt(t, dead.url)
  const { status, headers, bytes } = await sendRequest(varve.adminUrl, '/readyz')
  t.equal(status, 503)
  t.same(checker.complaints('readyz', { status, headers, body: bytes }), [])
  const response = await sendRequest(varve.adminUrl, '/status.json')
  t.same(checker.complaints('status_json', { status: 200, headers: response.headers, body: response.bytes }), [])
})
