import t, { type Test } from 'tap'
import { type TestRequest, type TestResponse, sendRequest } from '../support/client.js'
import { type TestVarve, varveAt, varveAtSandbox } from '../support/varve.js'

const status = 'cache-status'
const inMemory = 'varve; hit; detail=memory'
const modules = '/v1/accounts/0x1/modules?ledger_version=2000&limit=1'
const token = 'the t0ken'

async function varveWith (t: Test, adminToken: string | null): Promise<TestVarve> {
  const { varve } = await varveAtSandbox(t, {}, { admin: { listen: '127.0.0.1:0', token: adminToken } })
  await varve.get(modules)
  return varve
}

async function post (varve: TestVarve, body: string | Buffer, options: TestRequest = {}): Promise<TestResponse> {
  return await sendRequest(varve.adminUrl, '/purge', {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
    ...options,
    body
  })
}

const isCached = async (varve: TestVarve): Promise<boolean> => (await varve.get(modules)).headers[status] === inMemory

t.test('without a configured token every changing request gets 403, and nothing is purged', async t => {
  const varve = await varveWith(t, null)
  for (const authorization of [undefined, 'Bearer ', 'Bearer null', `Bearer ${token}`]) {
    for (
      const [method, target] of [
        ['POST', '/purge'],
        ['PUT', '/purge'],
        ['PATCH', '/purge'],
        ['DELETE', '/purge'],
        ['POST', '/metrics'],
        ['POST', '/nowhere'],
        ['DELETE', '/readyz']
      ] as const
    ) {
      const body = JSON.stringify({ url: modules })
      const got = await sendRequest(varve.adminUrl, target, {
        method,
        headers: { 'content-length': String(body.length), ...(authorization !== undefined && { authorization }) },
        body
      })
      t.match([got.status, JSON.parse(got.body), got.headers['content-type']], [403, {
        message: String,
        error_code: 'api_disabled',
        vm_error_code: null
      }, /^application\/json/], `${method} ${target}`)
    }
  }
  t.ok(await isCached(varve))
  t.match(await sendRequest(varve.adminUrl, '/healthz'), { status: 200 })
})

t.test('a wrong or missing token gets 401 before the body is read; the right one is accepted', async t => {
  const varve = await varveWith(t, token)
  for (
    const authorization of [
      undefined,
      '',
      token,
      `Basic ${token}`,
      `Bearer${token}`,
      `Bearer ${token}x`,
      `Bearer ${token.slice(0, -1)}`,
      `Bearer ${token.toUpperCase()}`,
      'Bearer',
      'Bearer the',
      `Bearer x ${token}`
    ]
  ) {
    for (const body of [JSON.stringify({ url: modules }), '{"all":true}', 'nonsense', 'x'.repeat(2 * 1024 * 1024)]) {
      const got = await post(varve, body, { headers: authorization === undefined ? {} : { authorization } })
      t.match([got.status, JSON.parse(got.body), got.headers['www-authenticate']], [401, {
        message: String,
        error_code: 'web_framework_error',
        vm_error_code: null
      }, 'Bearer'], String(authorization))
      t.notMatch(got.body, token)
    }
  }
  t.ok(await isCached(varve))
  for (const authorization of [`Bearer ${token}`, `bearer  ${token}`, `BEARER ${token}`]) {
    t.match(await post(varve, JSON.stringify({ url: modules }), { headers: { authorization } }), {
      status: 200,
      body: '{"purged":true,"everywhere":true}'
    }, authorization)
    t.notOk(await isCached(varve))
  }
  t.match(
    await sendRequest(varve.adminUrl, '/purge', { method: 'DELETE', headers: { authorization: `Bearer ${token}` } }),
    {
      status: 403
    },
    'only POST /purge changes anything'
  )
  t.match(await sendRequest(varve.adminUrl, '/purge'), { status: 404 })
  t.match(
    await sendRequest(varve.url, '/purge', {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
      body: '{"all":true}'
    }),
    { status: 404 },
    'not on the public listener'
  )
})

t.test('each purge is one log line with its address and scope, and says if nothing was stored', async t => {
  const varve = await varveWith(t, token)
  const lines = (): object[] =>
    varve.log.filter(({ msg }) => /^purged/.test(String(msg))).map(({ level, time, pid, hostname, ...line }) => line)
  const [clientAddress, body] = ['127.0.0.1', JSON.stringify({ url: modules })]
  const read = { clientAddress, method: 'GET', url: modules, everywhere: true }
  t.same((await post(varve, body)).body, '{"purged":true,"everywhere":true}')
  t.same((await post(varve, body)).body, '{"purged":true,"everywhere":true,"stored":false}')
  t.same(lines(), [
    { ...read, msg: 'purged a read' },
    { ...read, stored: false, msg: 'purged a read that was not stored' }
  ])
  const item = {
    method: 'POST',
    url: '/v1/tables/0x5eed/item?ledger_version=7',
    body: { key_type: 'u64', value_type: 'u64', key: '7'.padStart(3000, '0') }
  }
  t.equal((await post(varve, JSON.stringify(item))).status, 200)
  t.match(lines()[2], { method: 'POST', url: item.url, body: /^\{"key_type":"u64","value_type":"u64".{464}$/ })
  for (const stored of [undefined, false]) {
    if (stored === undefined) await varve.get(modules)
    t.equal((await post(varve, '{"account":"0x1"}')).status, 200)
    t.match(lines().at(-1), {
      clientAddress,
      account: '0x1',
      stored,
      msg: `purged an account${stored === false ? ' that was not stored' : ''}`
    })
  }
  t.equal((await post(varve, '{"all":true}')).status, 200)
  t.match(lines()[5], {
    clientAddress,
    everywhere: true,
    space: /^[0-9a-f]{16}$/,
    msg: 'purged everything: a new space begins'
  })
  t.equal(lines().length, 6)
  t.equal(varve.log.filter(({ msg }) => /new space/.test(String(msg))).length, 1, 'no other line says so')
})

t.test('a rejected token is one log line with its address, and guessing fills no log', async t => {
  for (const [configured, status] of [[token, 401], [null, 403]] as const) {
    const varve = await varveWith(t, configured)
    const lines = (): object[] => varve.log.filter(({ msg }) => /^admin call rejected/.test(String(msg)))
    const headers = { authorization: 'Bearer gue55' }
    await sendRequest(varve.adminUrl, `/config?${'x'.repeat(600)}`, { headers })
    await sendRequest(varve.adminUrl, '/upstreams/node/cordon', { method: 'POST', headers })
    for (let nth = 0; nth < 40; nth++) await post(varve, '{"all":true}', { headers })
    t.match(lines(), [
      { level: 40, clientAddress: '127.0.0.1', method: 'GET', url: /^\/config\?x{492}$/, status },
      { method: 'POST', url: '/upstreams/node/cordon', status },
      ...Array.from({ length: 8 }, () => ({ method: 'POST', url: '/purge', status }))
    ])
    t.notMatch(JSON.stringify(varve.log), 'gue55')
  }
})

t.test('the body is JSON whatever its type; a malformed, long or compressed one purges nothing', async t => {
  const varve = await varveWith(t, token)
  const authorization = `Bearer ${token}`
  for (
    const body of [
      '',
      'nonsense',
      '[]',
      'null',
      '{}',
      '{"url":5}',
      '{"all":false}',
      `{"all":true,"url":"${modules}"}`,
      `{"url":"${modules}","uri":1}`,
      `{"url":"${modules}","method":"PUT"}`,
      '{"url":"/v1/-/healthy"}',
      '{"url":"/v1/transactions","method":"POST"}',
      Buffer.from([0x7b, 0xff, 0x7d])
    ]
  ) {
    const got = await post(varve, body)
    t.match([got.status, JSON.parse(got.body)], [400, {
      message: String,
      error_code: 'invalid_input',
      vm_error_code: null
    }], String(body))
  }
  t.match(await post(varve, JSON.stringify({ url: modules }).padEnd(1024 * 1024 + 1)), {
    status: 413,
    body: /"web_framework_error"/
  })
  t.match(
    await post(varve, JSON.stringify({ url: modules }), { headers: { authorization, 'content-type': 'nonsense' } }),
    { status: 415, body: /"web_framework_error"/ }
  )
  t.match(
    await post(varve, Buffer.from('1f8b0800', 'hex'), { headers: { authorization, 'content-encoding': 'gzip' } }),
    { status: 400 }
  )
  t.ok(await isCached(varve))
  for (const type of [undefined, 'application/json', 'text/plain', 'application/x-www-form-urlencoded']) {
    t.match(
      await post(varve, JSON.stringify({ url: modules }), {
        headers: { authorization, ...(type !== undefined && { 'content-type': type }) }
      }),
      { status: 200 },
      String(type)
    )
    t.notOk(await isCached(varve))
  }
})

t.test('a purge before the chain is known gets 503, since there are no cache keys yet', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, {}, { admin: { listen: '127.0.0.1:0', token } })
  await sandbox.close()
  t.match(await post(varve, '{"all":true}'), { status: 200 }, 'known from when the upstream was up')
  const never = await varveAt(t, 'http://127.0.0.1:9', { admin: { listen: '127.0.0.1:0', token } })
  for (const body of ['{"all":true}', JSON.stringify({ url: modules })]) {
    t.match(await post(never, body), {
      status: 503,
      headers: { 'retry-after': /\d/ },
      body: /"error_code":"internal_error"/
    })
  }
})
