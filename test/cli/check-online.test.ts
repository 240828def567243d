import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { type RequestListener } from 'node:http'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { configSchema } from '../../src/config/schema.js'
import { certificate, certificateKey } from '../support/certificate.js'
import { startRedis } from '../support/redis-server.js'
import { startSandboxNode } from '../support/replicas.js'
import { startStubUpstream } from '../support/stub-upstream.js'
import { varveAt } from '../support/varve.js'
import { runCommand } from './command.js'

interface Finding {
  what: string
  name: string
  facts: Record<string, unknown>
  problems: string[]
}

/** Runs check --online --json on a configuration, which needs no upstream. */
async function online (
  t: Test,
  text: string,
  dir = t.testdir()
): Promise<{ code: number, out: string, findings: Finding[] }> {
  const file = join(dir, 'v.yaml')
  writeFileSync(file, text)
  const { code, out, err } = await runCommand(
    t,
    ['check', file, '--online', '--json'],
    /^upstreams/m.test(text) ? {} : { VARVE_SANDBOX: '1' }
  )
  t.equal(err, '')
  return { code, out, findings: (JSON.parse(out) as { online: Finding[] }).online }
}

t.test('check --online prints chain, window, release, lag and latency of every upstream', async t => {
  const [a, b] = [await startSandboxNode(t), await startSandboxNode(t)]
  const file = join(t.testdir({ 'v.yaml': `upstreams: [{ name: a, url: "${a.url}" }, { url: "${b.url}" }]` }), 'v.yaml')
  const { code, out, err } = await runCommand(t, ['check', '--online', file])
  t.same([code, err], [0, ''])
  t.match(
    out,
    /\n# online:\n# {3}upstream {2}a {7}ok {2}chain 4, version \d+, oldestVersion \d+, .*lagSeconds 0, latencyMs [\d.]+\n/
  )
  t.match(out, /\n# {3}upstream {2}node-2 {2}ok {2}/)
  t.strictSame(configSchema.parse(parse(out)), parse(out), 'the output is still a valid configuration')
  t.match(await runCommand(t, ['check', '--online'], { VARVE_SANDBOX: '1' }), {
    code: 0,
    out: /\n# online: there is nothing to contact\n$/
  })
})

t.test('check --online says which reads an upstream has switched off', async t => {
  const node = await startSandboxNode(t)
  node.faults.add({ kind: 'error', code: 'api_disabled', status: 403, match: 'view' })
  t.match(await online(t, `upstreams: [{ name: a, url: "${node.url}" }]`), {
    code: 0,
    findings: [{ name: 'a', problems: [], facts: { disabled: 'views' } }]
  })
})

t.test('an upstream that is down, on another chain, or no full node is a problem: exit 1', async t => {
  const [node, other] = [await startSandboxNode(t), await startSandboxNode(t, { chainId: 9 })]
  // Answers every request alike, as a gateway or a web server does.
  const serverWith = async (status: number): Promise<string> => {
    const respond: RequestListener = (_request, response) => response.writeHead(status).end('[]')
    return (await startStubUpstream(t, respond, respond)).url
  }
  const { code, findings } = await online(
    t,
    `upstreams:
  - { name: good, url: "${node.url}" }
  - { name: other, url: "${other.url}" }
  - { name: down, url: "http://127.0.0.1:1" }
  - { name: denied, url: "${await serverWith(401)}" }
  - { name: silent, url: "${await serverWith(200)}/s3cret", headers: { authorization: Bearer s3cret } }
`
  )
  t.equal(code, 1)
  t.match(findings, [
    { name: 'good', problems: [], facts: { chain: 4, lagSeconds: 0 } },
    { name: 'other', problems: ['serves chain 9, expected 4'], facts: { chain: 9 } },
    { name: 'down', problems: ['connection refused'] },
    { name: 'denied', problems: ['HTTP 401'] },
    { name: 'silent', problems: ['no position headers: expected a full node'] }
  ])
})

t.test('check --online reads version and eviction policy of Redis, and tries its password', async t => {
  const [good, bad] = [
    await startRedis(t, { password: 'r1ght' }),
    await startRedis(t, { maxmemory: '0', maxmemoryPolicy: 'noeviction' })
  ]
  t.match(await online(t, `cache: { redis: { url: "redis://${good.host}", password: r1ght } }`), {
    code: 0,
    findings: [{ what: 'redis', name: 'server', problems: [], facts: { version: /^\d+\./, policy: 'allkeys-lru' } }]
  })
  const rejected = await online(t, `cache: { redis: { url: "redis://:s3cret@${good.host}" } }`)
  t.match(rejected, { code: 1, findings: [{ problems: [/WRONGPASS/] }] })
  t.notMatch(rejected.out, /s3cret/)
  t.match(await online(t, `cache: { redis: { url: "redis://${good.host}" } }`), {
    code: 1,
    findings: [{ problems: [/NOAUTH/] }]
  })
  t.match(await online(t, `cache: { redis: { url: "redis://${bad.host}" } }`), {
    code: 1,
    findings: [{ problems: [/no maxmemory/, /noeviction/], facts: { policy: 'noeviction' } }]
  })
  t.match(await online(t, 'cache: { redis: { url: "redis://127.0.0.1:1" } }'), {
    code: 1,
    findings: [{ problems: [/ECONNREFUSED/] }]
  })
})

t.test('check --online loads certificate and key', async t => {
  const dir = t.testdir({ 'c.pem': certificate, 'k.pem': certificateKey })
  const tls = `tls: { certFile: "${join(dir, 'c.pem')}", keyFile: "${join(dir, 'k.pem')}" }`
  t.match(await online(t, tls, dir), {
    findings: [{ what: 'certificate', facts: { notAfter: /^\d{4}-/, days: Number } }]
  })
})

t.test('check --online inspects the disk folder without making it', async t => {
  const dir = t.testdir({ used: {}, file: '' })
  const disk = (path: string, maxGb = 1): string => `cache: { disk: { path: "${path}", maxGb: ${maxGb} } }`
  t.match(await online(t, disk(join(dir, 'new')), dir), {
    code: 0,
    findings: [{ what: 'disk', name: join(dir, 'new'), problems: [], facts: { state: 'new', usedGb: 0 } }]
  })
  t.notOk(existsSync(join(dir, 'new')))
  t.match(await online(t, disk(join(dir, 'used')), dir), { code: 0, findings: [{ facts: { state: 'writable' } }] })
  t.same(readdirSync(join(dir, 'used')), [])
  const node = await startSandboxNode(t)
  await varveAt(t, node.url, { cache: { disk: { path: join(dir, 'used') } } })
  t.match(await online(t, disk(join(dir, 'used')), dir), {
    code: 0,
    findings: [{ problems: [], facts: { state: 'in use' } }]
  })
  for (
    const [path, maxGb, problem] of [
      ['no/such', 1, /ENOENT/],
      ['file/x', 1, /ENOTDIR/],
      ['new', 100_000, /^the file system has [\d.]+ GB free, too little for maxGb 100000$/]
    ] as const
  ) {
    t.match(await online(t, disk(join(dir, path), maxGb), dir), { code: 1, findings: [{ problems: [problem] }] }, path)
  }
})

t.test('check --json prints mistakes with place, example and nearest key, and exits with 2', async t => {
  const file = join(
    t.testdir({ 'v.yaml': 'workrs: 2\nfollow: { mode: observ }\nupstreams: [{ url: "http://h" }]\n' }),
    'v.yaml'
  )
  const { code, out, err } = await runCommand(t, ['check', '--json', file])
  t.same([code, err], [2, ''])
  t.same(JSON.parse(out), {
    valid: false,
    file,
    mistakes: [
      {
        key: 'follow.mode',
        message: 'expected one of off, observe, on, got "observ"',
        line: 2,
        column: 17,
        example: 'mode: off'
      },
      {
        ...(JSON.parse(out) as { mistakes: object[] }).mistakes[1],
        key: 'workrs',
        line: 1,
        column: 1,
        nearest: 'workers'
      }
    ]
  })
  writeFileSync(file, 'workers: 1\nworkers: 2\n')
  t.same(JSON.parse((await runCommand(t, ['check', '--json', file])).out), {
    valid: false,
    file,
    mistakes: [{ message: 'Map keys must be unique', line: 2, column: 1 }]
  }, 'a mistake in the syntax concerns no key')
  t.match(await runCommand(t, ['check', '--json', join(file, 'none')]), { code: 2, err: '' })
  const valid = await runCommand(t, ['check', '--json'], { VARVE_SANDBOX: '1', VARVE_ADMIN: '0.0.0.0:9464' })
  t.match({ ...valid, out: JSON.parse(valid.out) as object }, {
    code: 0,
    err: '',
    out: { valid: true, config: { workers: 1 }, warnings: [{ key: 'admin.listen' }] }
  })
})

t.test('--allow-missing-secrets accepts missing variables and files of secrets, and nothing else', async t => {
  const of = (inside: string): string => `"$\{${inside}}"`
  const dir = t.testdir({
    'v.yaml': `
admin: { token: ${of('file:/nowhere/token')} }
upstreams:
  - { url: ${of('A_URL')}, headers: { authorization: "Bearer $\{A_KEY}" } }
  - { url: "https://gateway.example/$\{B_KEY}" }
cache: { redis: { url: ${of('REDIS_URL')} } }
clients: { keys: [{ name: a, key: ${of('A_CLIENT')} }, { name: b, key: ${of('B_CLIENT')} }] }
`,
    'w.yaml': `workers: ${of('WORKERS')}`
  })
  const file = join(dir, 'v.yaml')
  t.match(await runCommand(t, ['check', file]), { code: 2, err: /has 7 mistakes/ })
  const { code, out, err } = await runCommand(t, ['check', '--allow-missing-secrets', file])
  t.equal(code, 0)
  t.notMatch(out, /missing-/, 'placeholders are masked as secrets are')
  for (const key of ['admin.token', 'upstreams.0.url', 'upstreams.1.url', 'clients.keys.1.key', 'cache.redis.url']) {
    t.ok(err.includes(`varve: warning: ${key}: the secret is missing`), key)
  }
  t.match(await runCommand(t, ['check', '--allow-missing-secrets', join(dir, 'w.yaml')]), {
    code: 2,
    err: /workers: the environment variable WORKERS is not set/
  })
})
