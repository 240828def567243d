import { createServer } from 'node:http'
import { type AddressInfo } from 'node:net'
import { readFileSync } from 'node:fs'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import t from 'tap'
import {
  secretsOfClient,
  secretsOfUpstream,
  SecretRedactor,
  targetToRecord
} from '../../../src/tools/recording/redact-secrets.js'
import { sendRequest } from '../../support/client.js'
import { startRecorder, startReplay } from '../../support/recorder-and-replay.js'

const secrets = {
  header: 'node-k3y-0123456789',
  path: 'path-k3y-0123456789',
  bearer: 'bearer-s3cret-012/34',
  basic: Buffer.from('user:pass-word-1').toString('base64'),
  cookie: 'cookie-s3cret-0123',
  apiKey: 'api-s3cret-01234567',
  proxy: 'proxy-s3cret-0123',
  odd: 'odd-s3cret-01234567',
  query: 'query-s3cret-01234',
  prefix: 'prefix-s3cret-0123',
  set: 'set-s3cret-012345678',
  client: '203.0.113.77'
}

t.test('no secret is in the file, wherever a request or a response carries it', async t => {
  const server = createServer((request, response) => {
    const seen = JSON.stringify({ url: request.url, headers: request.rawHeaders })
    const target = String(request.url)
    const [coding, body] = target.includes('gzip')
      ? ['gzip', gzipSync(seen)]
      : target.includes('br')
      ? ['br', brotliCompressSync(seen)]
      : ['', Buffer.from(target.includes('bytes') ? `\0${seen}` : seen)]
    response.writeHead(
      200,
      [
        ['set-cookie', secrets.set],
        ['Set-Cookie', `${secrets.set}2`],
        ['x-echo', `${request.headers.authorization ?? ''} ${secrets.path}`],
        ['location', `https://h/${secrets.path}/v1`],
        ['www-authenticate', `Bearer realm="${secrets.header}"`],
        ...(coding === '' ? [] : [['content-encoding', coding]]),
        ['content-length', String(body.length)]
      ].flat() as string[]
    ).end(body)
  })
  await new Promise<void>(resolve => {
    server.listen(0, '127.0.0.1', resolve)
  })
  t.teardown(() => {
    server.close()
  })
  const recording = await startRecorder(
    t,
    `http://127.0.0.1:${(server.address() as AddressInfo).port}/${secrets.path}`,
    [
      '--header',
      // eslint-disable-next-line no-template-curly-in-string
      'X-Node-Key: ${NODE_KEY}',
      '--header',
      'accept: application/json'
    ],
    { NODE_KEY: secrets.header }
  )
  const headers = {
    authorization: `Bearer ${secrets.bearer}`,
    'proxy-authorization': `Basic ${secrets.basic}`,
    cookie: `a=1; session=${secrets.cookie}`,
    'x-api-key': secrets.apiKey,
    'api-key': secrets.apiKey,
    'x-my-token': secrets.odd,
    'x-forwarded-for': secrets.client,
    forwarded: `for=${secrets.client}`,
    'x-real-ip': secrets.client,
    referer: `https://site.example/?token=${secrets.odd}`,
    'user-agent': `lib/1 ${secrets.apiKey}`,
    'x-aptos-client': 'sdk/1',
    'accept-encoding': 'gzip, br'
  }
  for (
    const target of [
      `/v1/text?ledger_version=1&api_key=${secrets.query}&start=2`,
      '/v1/gzip',
      '/v1/br',
      '/v1/bytes',
      `/${secrets.prefix}/v1/prefixed`,
      `/${secrets.prefix}`
    ]
  ) {
    t.match(await sendRequest(recording.url, target, { headers }), {
      status: 200,
      headers: { 'set-cookie': [secrets.set, `${secrets.set}2`] },
      bytes: /./
    }, target)
  }
  await sendRequest(recording.url, '/v1/view', {
    headers,
    body: JSON.stringify({ arguments: [secrets.bearer, secrets.apiKey] })
  })
  t.equal(await recording.stop(), 0)
  const pairs = recording.exchanges()
  t.equal(pairs.length, 7)
  const file = readFileSync(recording.file, 'utf8')
  const output = recording.command.out() + recording.command.err()
  // Text of a response is not known to be secret; here it repeats the client's address, which is no credential.
  const untold = [secrets.client]
  const decoded = pairs.map(({ response }) => Buffer.from(response?.base64 ?? '', 'base64').toString('latin1')).join('')
  for (const [name, secret] of Object.entries(secrets).filter(([, secret]) => !untold.includes(secret))) {
    for (const form of [secret, encodeURIComponent(secret), Buffer.from(secret).toString('base64')]) {
      t.notOk((file + decoded).includes(form), name)
    }
    t.notOk(output.includes(secret), name)
  }
  const lines = pairs.flatMap(({ request, response }) => [...request.headers, ...response?.headers ?? []])
  t.notMatch(
    JSON.stringify(lines),
    new RegExp(`${secrets.set}|${secrets.client}|session|referer|forwarded|real-ip`, 'i')
  )
  t.match(pairs.map(({ request }) => request.target), [
    '/v1/text?ledger_version=1&api_key=***&start=2',
    '/v1/gzip',
    '/v1/br',
    '/v1/bytes',
    '/v1/prefixed',
    '/***',
    '/v1/view'
  ])
  t.match(pairs.map(({ response }) => response?.leftOut), [
    undefined,
    'it repeats a secret',
    'it repeats a secret',
    'it repeats a secret',
    undefined,
    undefined,
    undefined
  ])
  t.match(pairs[0]?.response?.body, /\*\*\*/)
  t.same(pairs[0]?.response?.headers.slice(0, 3), [['x-echo', '*** ***'], ['location', 'https://h/***/v1'], [
    'www-authenticate',
    'Bearer realm="***"'
  ]])
  t.match(pairs[0]?.request.headers, [['user-agent', 'lib/1 ***'], ['x-aptos-client', 'sdk/1'], [
    'accept-encoding',
    'gzip, br'
  ]])

  const replay = await startReplay(t, recording.file)
  t.match(await sendRequest(replay.url, '/v1/text?ledger_version=1&api_key=another&start=2', { headers }), {
    status: 200,
    headers: { 'x-echo': '*** ***' },
    body: pairs[0]?.response?.body
  }, 'another key is the same request')
  t.match(await sendRequest(replay.url, '/a-key/v1/prefixed', { headers }), { status: 200 })
  t.match(await sendRequest(replay.url, '/v1/gzip', { headers }), {
    status: 404,
    body: /its response was left out of the recording: it repeats a secret/
  })
})

t.test('an upstream URL with credentials or /v1 is rejected without being repeated, as by serve', async t => {
  const { runCommand } = await import('../../cli/command.js')
  const out = `${t.testdir()}/a`
  for (
    const url of [
      'http://user:pass-s3cret@127.0.0.1:9',
      'http://127.0.0.1:9/?key=pass-s3cret',
      'pass-s3cret',
      'http://127.0.0.1:9/pass-s3cret/v1'
    ]
  ) {
    t.match(await runCommand(t, ['record', '--upstream', url, '--out', out]), {
      code: 2,
      out: '',
      err:
        /^varve: the configuration has a mistake:\n {2}upstreams\.0\.url \(from --upstream\): expected an http or https URL without credentials(?!.*s3cret)/
    })
  }
  const with2 = (header: string, environment = {}): ReturnType<typeof runCommand> =>
    runCommand(t, ['record', '--upstream', 'http://127.0.0.1:9', '--out', out, '--header', header], environment)
  // eslint-disable-next-line no-template-curly-in-string
  t.match(await with2('authorization: ${NO_SUCH}'), {
    code: 2,
    err: /upstreams\.0\.headers\.authorization: the environment variable NO_SUCH is not set/
  })
  // eslint-disable-next-line no-template-curly-in-string
  t.match(await with2('a: ${X}', { X: 'pass-s3cret\nx: y' }), {
    code: 2,
    err: /upstreams\.0\.headers\.a: expected a header value without line breaks(?!.*s3cret)/
  })
  t.match(await with2('bearer pass-s3cret-1'), {
    code: 2,
    err: /^varve: --header expects 'NAME: VALUE'; see varve record --help\n$/
  })
  t.match(await with2('authorization'), { code: 2, err: /got authorization;/ })
})

t.test('short values, and values that are no secret by name, stay', t => {
  const out = new SecretRedactor([
    ...secretsOfUpstream('https://h/v2-key/longer-key-1/', { 'x-key': 'Bearer 12345678', accept: 'application/json' }),
    ...secretsOfClient(
      [['X-Api-Key', '1'], ['authorization', 'Bearer ab%2Fcdefgh'], ['accept', 'text/plain-long']],
      '/v1?sig=abcdefgh&start=98765432101'
    )
  ])
  t.equal(
    out.redact('v2-key 1 Bearer application/json text/plain-long 98765432101'),
    'v2-key 1 Bearer application/json text/plain-long 98765432101'
  )
  t.equal(
    out.redact('v2-key/longer-key-1 longer-key-1 Bearer 12345678 ab%2Fcdefgh ab/cdefgh abcdefgh YWJjZGVmZ2g='),
    '*** *** *** *** *** *** ***'
  )
  t.match(out.encodeBody(Buffer.from([0xff, 1]), [['content-encoding', 'zstd']]), {
    leftOut: 'its coding cannot be searched for secrets'
  })
  t.match(
    out.encodeBody(Buffer.from([0xff, 1]), [['content-encoding', 'gzip']]),
    { leftOut: /^its coding cannot/ },
    'nor a body that is not coded as declared'
  )
  t.match(new SecretRedactor([]).encodeBody(Buffer.from([0xff, 1]), [['content-encoding', 'zstd']]), { base64: '/wE=' })
  t.match(new SecretRedactor(['%E0%A4%A']).redact('%E0%A4%A'), '***')
  t.same(
    ['/', '/v1', '/v1/a?b', '/key/v1/accounts/1/module/v1', '/metrics?key=1&b=&token', '/v12'].map(targetToRecord),
    [
      '/',
      '/v1',
      '/v1/a?b',
      '/v1/accounts/1/module/v1',
      '/***?key=***&b=&token',
      '/***'
    ]
  )
  t.end()
})

t.test('of a query only known parameters, short values and numbers are recorded, never a key', t => {
  const target =
    '/v1/transactions?start=12345678901&limit=00000000007&x=1&junk&network=0xabcdef0123456789&_=1700000000000'
  t.equal(targetToRecord(target), target)
  for (
    const part of [
      'accessKey=s3cret-1234',
      'authToken=s3cret-1234',
      'api%5Fkey=s3cret-1234',
      'key%5B%5D=s3cret-1234',
      'Authorization=s3cret-1234',
      'pass=correct-horse',
      's3cret-1234',
      's3cret-1234=',
      's3cret-1234=='
    ]
  ) {
    t.notMatch(targetToRecord(`/v1?start=1&${part}`), /s3cret|horse/, part)
  }
  const secrets = new SecretRedactor(
    secretsOfClient([['authorization', `Basic ${Buffer.from('a-user-name:pass-w0rd-1').toString('base64')}`], [
      'X-Session',
      'sess10n-0123'
    ]], '/v1/k3y-of-mine/v1/view?accessKey=s3cret-1234&form=application/json&x=s3cret-5678==')
  )
  t.equal(
    secrets.redact('a-user-name pass-w0rd-1 sess10n-0123 k3y-of-mine s3cret-1234 application/json s3cret-5678=='),
    '*** *** *** *** *** application/json ***',
    'a plain word is not searched for in responses'
  )
  t.ok(
    secretsOfClient([['authorization', `Basic ${Buffer.from('just-a-key-1').toString('base64')}`]], '/v1').includes(
      'just-a-key-1'
    )
  )
  t.same(
    ['/v1/k3y-of-mine/v1/accounts/0x1', '/v1/k3y-of-mine/v1', '/v1/a/v1/b', '/v1/-/healthy', '/v1/', '/v1/info'].map(
      targetToRecord
    ),
    ['/v1/accounts/0x1', '/v1', '/v1/b', '/v1/-/healthy', '/v1/', '/v1/info']
  )
  const { length } = new SecretRedactor([]).redactHeaders([['x-session-token', 'a'], [
    'x-aptos-txn-encryption-key',
    'b'
  ], [
    'www-authenticate',
    'c'
  ]])
  t.equal(length, 2)
  t.end()
})
