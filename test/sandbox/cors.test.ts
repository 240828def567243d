import t from 'tap'
import { startSandbox } from '#sandbox'
import { requestNode, requestTableItem, sendRaw } from './request-node.js'

const origin = 'https://app.example'
const echoed = { 'access-control-allow-origin': origin, 'access-control-allow-credentials': 'true', vary: 'Origin' }
const corsNames = (headers: object): string[] =>
  Object.keys(headers).filter(name => name.startsWith('access-control-') || name === 'vary')

t.test('a page of any origin may read the sandbox with credentials, but sees none of its headers', async t => {
  const sandbox = await startSandbox({ blockMs: 0 })
  t.teardown(async () => {
    await sandbox.close()
  })
  for (const target of ['/v1', '/v1/info', '/v1/blocks/by_version/1', '/v1/nowhere']) {
    const { headers, json } = await requestNode(`${sandbox.url}${target}`, { headers: { origin } })
    t.match(headers, echoed, target)
    t.notHas(headers, { 'access-control-expose-headers': String })
    t.type(json, 'object')
    t.same(corsNames((await requestNode(`${sandbox.url}${target}`)).headers), [], 'no CORS headers without an origin')
  }
  t.match(
    (await requestTableItem(sandbox.url, { key_type: 'u64', value_type: 'u64', key: '7' }, '', '0x1', { origin }))
      .headers,
    echoed
  )
  const raw = await sendRaw(sandbox.url, `GET /v1/<> HTTP/1.1\r\nhost: node\r\norigin: ${origin}\r\n\r\n`)
  t.match(raw, /^HTTP\/1\.1 400 /)
  t.notMatch(raw, /access-control|vary/i, 'a rejection of the HTTP layer has none')
})

t.test('a preflight allows GET and POST with any header, and reads nothing', async t => {
  const sandbox = await startSandbox({ blockMs: 0 })
  t.teardown(async () => {
    await sandbox.close()
  })
  const preflight = async (method: string, more: Record<string, string> = {}) =>
    await requestNode(`${sandbox.url}/v1/view`, {
      method: 'OPTIONS',
      headers: { origin, 'access-control-request-method': method, ...more }
    })
  for (const method of ['GET', 'POST']) {
    const granted = await preflight(method, { 'access-control-request-headers': 'content-type,x-aptos-client' })
    t.match(granted, {
      status: 200,
      text: '',
      headers: {
        ...echoed,
        'access-control-allow-methods': 'GET,POST',
        'access-control-allow-headers': 'content-type,x-aptos-client',
        'access-control-max-age': '86400'
      }
    })
  }
  t.equal((await preflight('GET')).headers['access-control-allow-headers'], '*')
  const rejected = await preflight('PUT')
  t.match(rejected, {
    status: 403,
    json: { message: 'request-method not allowed', error_code: 'web_framework_error', vm_error_code: null }
  })
  t.same(corsNames(rejected.headers), [])
  t.equal(sandbox.requests.total, 0)
  t.equal(
    (await requestNode(`${sandbox.url}/v1`, { method: 'OPTIONS', headers: { origin } })).status,
    405,
    'no preflight without a requested method'
  )
})
