import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type Command, runCommand, startCommand } from '../cli/command.js'
import { certificate, certificateKey, encryptedKey, renewedCertificate, renewedKey } from '../support/certificate.js'
import { sendRequest } from '../support/client.js'
import { startSandboxNode } from '../support/replicas.js'
import { startStubUpstream } from '../support/stub-upstream.js'
import { subjectAt } from '../support/raw.js'
import { until } from '../support/until.js'

const modules = (version: number): string => `/v1/accounts/0x1/modules?ledger_version=${version}&limit=1`

/** Starts varve with a configuration file that a test may change and reload. */
async function reloadable (
  t: Test,
  text: string,
  file = join(t.testdir({ 'v.yaml': text }), 'v.yaml')
): Promise<
  { command: Command, url: string, adminUrl: string, reload: (text: string) => Promise<Record<string, unknown>> }
> {
  const command = startCommand(t, ['--config', file, '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0'])
  const [, url = '', adminUrl = ''] = await command.waitForOutput(
    /"url":"([^"]+)","adminUrl":"([^"]+)","msg":"listening"/
  )
  await command.waitForOutput(/upstream is up/)
  return {
    command,
    url,
    adminUrl,
    reload: async changed => {
      const before = command.log().length
      const reloadLog = (): Record<string, unknown> | undefined =>
        command.log().slice(before).find(({ msg }) =>
          /configuration reloaded|new configuration rejected/.test(String(msg))
        )
      writeFileSync(file, changed)
      command.signal('SIGHUP')
      await until(() => reloadLog() !== undefined, 'the configuration was looked at')
      return reloadLog() ?? {}
    }
  }
}

/** Purges everything with a token; returns the status. */
async function purge (adminUrl: string, token: string): Promise<number> {
  const headers = { authorization: `Bearer ${token}` }
  return (await sendRequest(adminUrl, '/purge', { method: 'POST', headers, body: '{"all":true}' })).status
}

t.test('SIGHUP reloads upstreams, limits and keys and keeps the cache and all connections', async t => {
  const [one, two] = [await startSandboxNode(t, { prunedBlocks: 0 }), await startSandboxNode(t, { prunedBlocks: 0 })]
  const { url, adminUrl, reload } = await reloadable(
    t,
    `upstreams: [{ name: one, url: "${one.url}" }]\nadmin: { token: before }\n`
  )
  t.match((await sendRequest(url, modules(2000))).headers, { 'cache-status': /stored/ })
  t.match(
    await reload(
      `upstreams: [{ name: two, url: "${two.url}" }]\nadmin: { token: after }\nlimits: { bodyKb: 1, ` +
        'headerKb: 4 }\npassThrough: none\ncors: { origins: ["https://a.example"] }\nlog: { access: true }\n'
    ),
    { level: 30, msg: 'configuration reloaded' }
  )
  one.requests.reset()
  two.requests.reset()
  t.match((await sendRequest(url, modules(2000))).headers, { 'cache-status': 'varve; hit; detail=memory' })
  t.match(await sendRequest(url, modules(2001)), { status: 200 })
  t.same([one.requests.countFor('account_modules'), two.requests.countFor('account_modules')], [0, 1])
  t.match(await sendRequest(url, '/v1/spec.json'), { status: 404 })
  t.match(
    await sendRequest(url, '/v1/tables/0x1/item', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: `{"key":"${'x'.repeat(2000)}"}`
    }),
    { status: 413 }
  )
  t.match(await sendRequest(url, modules(2000), { headers: { 'x-long': 'x'.repeat(6000) } }), { status: 431 })
  t.match((await sendRequest(url, modules(2000), { headers: { origin: 'https://b.example' } })).headers, {
    vary: /Origin/
  })
  t.same([await purge(adminUrl, 'before'), await purge(adminUrl, 'after')], [401, 200])
  const metrics = (await sendRequest(adminUrl, '/metrics')).body
  t.match(metrics, /varve_upstream_up\{upstream="two"\} 1/)
  t.notMatch(metrics, /varve_upstream_up\{upstream="one"\}/)
})

t.test('SIGHUP reloads client keys, limits and trusted proxies and keeps used budgets', async t => {
  const upstream = await startSandboxNode(t, { prunedBlocks: 0 })
  const text = (...more: string[]): string => [`upstreams: [{ url: "${upstream.url}" }]`, ...more, ''].join('\n')
  const keyed = (key: string): string => `clients: { required: true, keys: [{ name: shop, key: ${key} }] }`
  const limited = 'limits: { client: { requestsPerSecond: 1, burst: 2 } }'
  const { command, url, adminUrl, reload } = await reloadable(t, text(keyed('k-before'), limited))
  const get = async (version: number, key: string, from = '203.0.113.1'): Promise<number> =>
    (await sendRequest(url, modules(version), { headers: { 'x-api-key': key, 'x-forwarded-for': from } })).status
  t.same([await get(2000, 'k-before'), await get(2000, 'k-before'), await get(2000, 'k-after')], [200, 200, 401])
  await reload(text(keyed('k-after'), limited))
  t.same([await get(2000, 'k-before'), await get(2000, 'k-after')], [401, 200], 'a renewed key')
  let version = 2000
  await until(
    async () => await get(++version, 'k-after') === 429,
    'the renamed key has used up the limit of its client'
  )
  await reload(text('trustProxy: [127.0.0.1]', limited))
  await until(
    async () => await get(++version, '', '203.0.113.2') === 429,
    'the other address has used up its own limit'
  )
  t.equal(await get(++version, '', '203.0.113.3'), 200)
  await reload(text())
  for (let nth = 0; nth < 5; nth++) {
    t.equal(await get(++version, '', '203.0.113.2'), 200, 'no client is limited any more')
  }
  t.match(
    (await sendRequest(adminUrl, '/metrics')).body,
    /varve_client_requests_total\{client="shop",outcome="miss"\} [1-9]/
  )
  t.notMatch(command.out(), /k-before|k-after/)
})

t.test('a changed file of keys is taken by itself; after a mistake in it the keys of before stay', async t => {
  const upstream = await startSandboxNode(t, { prunedBlocks: 0 })
  const folder = t.testdir({ 'keys.yaml': 'keys: [{ name: one, key: k-one }]' })
  const [file, config] = [join(folder, 'keys.yaml'), join(folder, 'v.yaml')]
  const replace = (text: string): void => {
    writeFileSync(`${file}.new`, text)
    renameSync(`${file}.new`, file)
  }
  const text = `upstreams: [{ url: "${upstream.url}" }]\n` +
    `clients: { required: true, keys: [{ name: fixed, key: k-fixed }], keysFile: "${file}" }\n`
  writeFileSync(config, text)
  const { command, url } = await reloadable(t, text, config)
  const statuses = async (): Promise<number[]> =>
    await Promise.all(
      ['k-one', 'k-two', 'k-fixed'].map(async key =>
        (await sendRequest(url, modules(2000), { headers: { 'x-api-key': key } })).status
      )
    )
  t.same(await statuses(), [200, 401, 200])
  replace('keys: [{ name: two, key: k-two }]')
  await command.waitForOutput(/configuration reloaded/)
  t.same(await statuses(), [401, 200, 200])
  replace('keys: [{ name: two, kay: k-three }]')
  await command.waitForOutput(/keys\.yaml.*unknown key/)
  t.same(await statuses(), [401, 200, 200])
  t.notMatch(command.out(), /k-one|k-two|k-three|k-fixed/)
})

t.test('varve finishes requests to an upstream that a reload removes', async t => {
  const [leaves, stays] = [
    await startSandboxNode(t, { prunedBlocks: 0 }),
    await startSandboxNode(t, { prunedBlocks: 0 })
  ]
  const { url, reload } = await reloadable(t, `upstreams: [{ url: "${leaves.url}" }]\n`)
  leaves.faults.add({ kind: 'slow', ms: 700, match: 'account_modules' })
  const pending = sendRequest(url, modules(2000))
  await until(() => leaves.requests.countFor('account_modules') === 1, 'the read is in progress')
  t.match(await reload(`upstreams: [{ url: "${stays.url}" }]\n`), { msg: 'configuration reloaded' })
  t.match(await pending, { status: 200 })
  leaves.requests.reset()
  t.match(await sendRequest(url, modules(2001)), { status: 200 })
  t.same(leaves.requests.counts, {}, 'no further request goes to it')
})

t.test('varve rejects an invalid configuration with all reasons and keeps running on the old one', async t => {
  const upstream = await startSandboxNode(t, { prunedBlocks: 0 })
  const text = `upstreams: [{ url: "${upstream.url}" }]\n`
  const { url, adminUrl, reload, command } = await reloadable(t, text)
  t.match(await reload('upstreams: [{ url: nowhere, headers: { x: s3cret } }]\ncolour: red\n'), {
    level: 50,
    msg: 'new configuration rejected: the previous one stays in use',
    reasons: [/:1:\d+: upstreams\.0\.url: expected an http/, /:2:1: colour: unknown key/]
  })
  t.match(await reload('upstreams: ['), { level: 50 })
  t.match((await sendRequest(adminUrl, '/metrics')).body, /varve_config_reloads_total\{result="rejected"\} 2\n/)
  t.match(await sendRequest(url, modules(2000)), { status: 200 })
  t.match(await reload(text), { level: 30 }, 'the next reload is read as usual')
  t.notMatch(command.out(), /s3cret/)
})

t.test('SIGHUP loads a renewed certificate; an unusable one is rejected and the old one stays', async t => {
  const upstream = await startSandboxNode(t, { prunedBlocks: 0 })
  const dir = t.testdir({ 'c.pem': certificate, 'k.pem': certificateKey })
  const text = `upstreams: [{ url: "${upstream.url}" }]\ntls: { certFile: "${dir}/c.pem", keyFile: "${dir}/k.pem" }\n`
  // Writes the file itself, because tap creates a test directory only once.
  const file = join(dir, 'v.yaml')
  writeFileSync(file, text)
  const { url, adminUrl, reload } = await reloadable(t, text, file)
  t.match((await sendRequest(adminUrl, '/metrics')).body, /^varve_tls_certificate_not_after_seconds 4948\d{6}$/m)
  t.equal(await subjectAt(url), 'CN=127.0.0.1')
  writeFileSync(join(dir, 'c.pem'), renewedCertificate)
  t.match(await reload(text), {
    level: 50,
    reasons: [/tls\.keyFile: expected a PEM file with the key of the certificate, .*mismatch/]
  })
  writeFileSync(join(dir, 'k.pem'), encryptedKey)
  t.match(
    await reload(`${text}admin: { token: t0ken }
`),
    {
      level: 50,
      reasons: [/tls\.keyFile: .*a key without a passphrase/]
    }
  )
  t.equal(await subjectAt(url), 'CN=127.0.0.1')
  const withToken = { headers: { authorization: 'Bearer t0ken' } }
  t.match(await sendRequest(adminUrl, '/config', withToken), { status: 403 }, 'nothing of it is in use')
  writeFileSync(join(dir, 'k.pem'), renewedKey)
  t.match(await reload(text), { level: 30 })
  t.equal(await subjectAt(url), 'CN=renewed.example')
  t.match(await reload(text), { level: 30 }, 'the same once more')
  t.match(await sendRequest(adminUrl, '/readyz'), { status: 200, body: '{"ready":true,"level":"green","degraded":[],' })
})

t.test('a reload names each key that needs a restart and applies the others', async t => {
  const upstream = await startSandboxNode(t, { prunedBlocks: 0 })
  const { url, reload, command } = await reloadable(t, `upstreams: [{ url: "${upstream.url}" }]\n`)
  t.match(
    await reload(
      `upstreams: [{ url: "${upstream.url}" }]\nworkers: 2\ncache: { memory: { maxMb: 64 } }\npassThrough: none\n`
    ),
    { msg: 'configuration reloaded' }
  )
  t.same(command.log().filter(({ msg }) => /needs a restart/.test(String(msg))).map(({ key }) => key), [
    'workers',
    'cache.memory.maxMb'
  ])
  t.match(await sendRequest(url, '/v1/spec.json'), { status: 404 })
})

t.test('varve reload prints the full keys that changed, what needs a restart, or every mistake', async t => {
  const upstream = await startSandboxNode(t, { prunedBlocks: 0 })
  const text = `upstreams: [{ url: "${upstream.url}" }]\nadmin: { token: s3cret }\n`
  const file = join(t.testdir({ 'v.yaml': text }), 'v.yaml')
  const { adminUrl, url } = await reloadable(t, text, file)
  const reload = async (changed: string, environment = { VARVE_ADMIN_TOKEN: 's3cret' }) => {
    writeFileSync(file, changed)
    return await runCommand(t, ['reload', '--admin', adminUrl], environment)
  }
  t.match(await reload(text), { code: 0, out: 'reloaded: nothing has changed\n' })
  const changed = `${text}passThrough: none\ncache: { memory: { maxMb: 64 } }\n`
  t.same(await reload(changed), {
    code: 0,
    out: 'reloaded: cache.memory.maxMb, passThrough\n  cache.memory.maxMb takes effect after a restart\n',
    err: ''
  })
  t.match(await sendRequest(url, '/v1/spec.json'), { status: 404 })
  t.match(await reload(changed), {
    out: 'reloaded: nothing has changed\n  cache.memory.maxMb takes effect after a restart\n'
  })
  const { code, out, err } = await reload('upstreams: [{ url: nowhere }]\nadmin: { token: s3cret }\ncolour: s3cret\n')
  t.same([code, out], [2, ''])
  t.match(
    err,
    /^varve: not reloaded, .*:\n {2}\S+v\.yaml:1:\d+: upstreams\.0\.url: expected .*\n {2}\S+:3:1: colour: unknown key/
  )
  t.notMatch(err, /s3cret/)
  t.match(await reload(text, { VARVE_ADMIN_TOKEN: 'another' }), {
    code: 1,
    err: /^varve: not reloaded: expected the admin token.*set VARVE_ADMIN_TOKEN/
  })
  const results = await Promise.all([1, 2, 3].map(async () => await reload(text)))
  t.same(results.map(({ code }) => code), [0, 0, 0], 'calls at once share reloads')
})

t.test('a reload to upstreams of another chain serves history and nothing of the other chain', async t => {
  const upstream = await startSandboxNode(t, { prunedBlocks: 0 })
  const foreign = await startStubUpstream(
    t,
    (_request, response) => response.writeHead(200, { 'content-type': 'application/json' }).end('[]')
  )
  const { url, reload } = await reloadable(t, `upstreams: [{ url: "${upstream.url}" }]\n`)
  const before = await sendRequest(url, modules(2000))
  await reload(`upstreams: [{ url: "${foreign.url}" }]\n`)
  t.match(await sendRequest(url, modules(2000)), { status: 200, body: before.body })
  t.match(await sendRequest(url, modules(15)), { status: 503 })
})

t.test('SIGHUP reloads secrets from their files, and no log line contains a secret', async t => {
  const upstream = await startSandboxNode(t, { prunedBlocks: 0 })
  const dir = mkdtempSync(join(tmpdir(), 'varve-'))
  t.teardown(() => rmSync(dir, { recursive: true }))
  const secret = join(dir, 'token')
  writeFileSync(secret, 'f1rst-s3cret\n')
  const text =
    `upstreams: [{ url: "${upstream.url}", headers: { authorization: "Bearer $\{file:${secret}}" } }]\nadmin:\n  ` +
    `token: $\{file:${secret}}\n`
  const { command, adminUrl, reload } = await reloadable(t, text)
  t.equal(await purge(adminUrl, 'f1rst-s3cret'), 200)
  writeFileSync(secret, 's3cond-s3cret\n')
  t.match(await reload(text), { msg: 'configuration reloaded' })
  t.same([await purge(adminUrl, 'f1rst-s3cret'), await purge(adminUrl, 's3cond-s3cret')], [401, 200])
  writeFileSync(secret, 's3cond-s3cret\nth1rd-s3cret\n')
  t.match(await reload(text), {
    reasons: [/: upstreams\.0\.headers\.authorization: expected a header value without line breaks$/]
  })
  writeFileSync(secret, 'th1rd-s3cret\0')
  t.match(await reload(text), {
    reasons: [
      /: upstreams\.0\.headers\.authorization: the file ".*" contains a NUL byte$/,
      /: admin\.token: the file ".*" contains a NUL byte$/
    ]
  })
  t.match(await reload('admin: { token: "s3cond-s3cret }\n'), { msg: /rejected/ })
  t.match(await reload('s3cond-s3cret: 1\nfollow: { mode: s3cond-s3cret }\n'), {
    reasons: [
      /^upstreams: expected the URL of a full node/,
      /:2:17: follow\.mode: expected one of off, observe, on; for example mode: off$/,
      /:1:1: \*\*\*: unknown key/
    ]
  })
  t.equal(await purge(adminUrl, 's3cond-s3cret'), 200, 'the old configuration stays')
  t.notMatch(command.out() + command.err(), /s3cret/)
})
