import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parse, stringify } from 'yaml'
import { type Environment, type Flags, type LoadedConfig, loadConfig } from '../../src/config/load.js'
import { ConfigError, type Mistake, mistakeText } from '../../src/config/config-error.js'
import { type Config, configSchema } from '../../src/config/schema.js'
import { workerConfigOf } from '../../src/app/multi-process.js'

// Published keys with their defaults, and one upstream: renaming a key breaks operators' files.
const contract = `
listen: 127.0.0.1:8080
tls: { certFile: null, keyFile: null, minVersion: 1.2, ciphers: null }
admin: { listen: 127.0.0.1:9464, token: null, hosts: [] }
workers: 1
log: { level: info, levelNames: false, isoTimes: false, access: false, clientAddress: false, accessFields: null, accessSample: 1, accessSlowMs: 1000 }
trustProxy: []
chainId: null
upstreams:
  - name: node-a
    url: http://127.0.0.1:8081
    headers: { authorization: Bearer ... }
    resolve: any
    proxy: false
    timeoutMs: 5000
    maxConcurrent: 256
    requestsPerSecond: null
    budget: null
    caFile: null
    certFile: null
    keyFile: null
    ignoreCacheControl: false
    maxLagSeconds: 60
    priority: 0
    weight: 1
head: { pollMs: 1000, fleet: false }
readiness: { requireUpstream: false }
shutdown: { drainSeconds: 1 }
headers: { emit: [node, upstream] }
hedge: { share: 0.05, afterMs: 500 }
waitForVersion: { ms: 0 }
cache:
  memory: { maxMb: 256 }
  disk: { path: null, maxGb: 10 }
  redis: { url: null, cluster: [], sentinel: { name: null, hosts: [], password: null }, username: null, password: null, tls: false, caFile: null, keyPrefix: varve, timeoutMs: 50, ttlSeconds: 2592000 }
  maxEntryMb: 8
http: { fastPath: true }
follow: { mode: off, maxAgeMs: 250, verify: 0.02 }
latest: { stateMs: 0, infoMs: 1000, indexMs: 250, gasMs: 500, promote: true }
pruned: { serveCached: true, answerLocally: true }
pages: { eventsTtlSeconds: 3600, pinned: false, strict: false }
audit: { share: 0.001, followedShare: 0.01 }
limits: { bodyKb: 1024, headerKb: 16, connections: null, inFlightMb: null, loopLagMs: 100, client: { requestsPerSecond: null, burst: null, exemptHits: true } }
clients: { required: false, keys: [], keysFile: null }
savings: { pricePerMillion: {} }
passThrough: reads
tracing: { otlpUrl: null, headers: {}, serviceName: varve, sample: 0.01 }
cors: { origins: "*" }
downstream: { cacheControl: revalidate }
`

/** Loads a configuration file with this text. */
function load (t: Test, text: string, environment: Environment = {}, flags: Flags = {}): LoadedConfig {
  return loadConfig(environment, { config: join(t.testdir({ 'varve.yaml': text }), 'varve.yaml'), ...flags })
}

/** Returns the mistakes of a failed load; a mistake in the file itself has the file's name as path. */
function mistakesOf (loading: () => unknown): readonly Mistake[] {
  try {
    loading()
  } catch (error) {
    if (error instanceof ConfigError) return error.mistakes
    throw error
  }
  return []
}

interface Row {
  readonly why: string
  readonly file?: string
  readonly environment?: Record<string, string>
  readonly flags?: Flags
  readonly each?: readonly string[]
  readonly mistakes: Record<string, string>
}

for (
  const { why, mistakes, each = [''], ...given } of parse(
    readFileSync('test/cases/config-mistakes.yaml', 'utf8')
  ) as Row[]
) {
  t.test(why, async t => {
    const dir = t.testdir({})
    for (const value of each) {
      const { file = '', environment = {}, flags = {} } = JSON.parse(
        JSON.stringify(given),
        (_name, item: unknown) => typeof item === 'string' ? item.replaceAll('@@', value) : item
      ) as Omit<Row, 'why'>
      const config = join(dir, 'varve.yaml')
      writeFileSync(config, file)
      const found = mistakesOf(() => loadConfig(environment, { config, ...flags }))
      t.same(Object.fromEntries(found.map(({ path, message }) => [path, message])), mistakes, value)
    }
  })
}

t.test('the defaults are exactly those of the contract', async t => {
  const { upstreams, ...rest } = parse(contract) as { upstreams: unknown }
  t.strictSame(loadConfig({}, {}), {
    config: { ...rest, upstreams: [] },
    missingSecrets: [],
    isSandbox: false
  })
  const minimal = 'upstreams: [{ name: node-a, url: http://127.0.0.1:8081, headers: { authorization: Bearer ... } }]'
  t.strictSame(load(t, minimal).config, { ...rest, upstreams })
  t.strictSame(load(t, contract).config, { ...rest, upstreams }, 'the contract is a valid configuration')
  t.strictSame(
    load(t, 'upstreams: [{ url: http://h }]').config.upstreams[0]?.headers,
    {},
    'no default headers are sent upstream'
  )
})

t.test('an empty file, or one with comments only, leaves every default', async t => {
  for (const text of ['', '# nothing yet\n', '---\n']) t.strictSame(load(t, text), loadConfig({}, {}))
})

t.test('a flag overrides the environment, which overrides the file, which overrides the default', async t => {
  const levels = [
    { flag: 'listen', variable: 'VARVE_LISTEN', path: ['listen'], texts: ['h:1', 'h:2', 'h:3'] },
    { flag: 'admin', variable: 'VARVE_ADMIN', path: ['admin', 'listen'], texts: ['h:1', '[::1]:2', '0.0.0.0:0'] },
    {
      flag: 'redis',
      variable: 'VARVE_REDIS',
      path: ['cache', 'redis', 'url'],
      texts: ['redis://h:1', 'rediss://h', 'redis://u:p@h/1']
    },
    { flag: 'disk', variable: 'VARVE_DISK', path: ['cache', 'disk', 'path'], texts: ['a', '/b', 'c d'] },
    { flag: 'workers', variable: 'VARVE_WORKERS', path: ['workers'], texts: ['2', '3', '4'] },
    { flag: 'log-level', variable: 'VARVE_LOG_LEVEL', path: ['log', 'level'], texts: ['debug', 'silent', 'warn'] },
    {
      flag: 'upstream',
      variable: 'VARVE_UPSTREAM',
      path: ['upstreams', '0', 'url'],
      texts: ['http://a', 'https://b/key', 'http://c:1']
    }
  ] as const
  for (const { flag, variable, path, texts: [inFile, inEnvironment, inFlag] } of levels) {
    const file = stringify(
      path.reduceRight<unknown>((value, key) => key === '0' ? [value] : { [key]: value }, parse(inFile))
    )
    const dir = t.testdir({ 'a.yaml': file })
    const valueOf = (environment: Environment, flags: Flags): string =>
      String(
        path.reduce<unknown>(
          (at, key) => (at as Record<string, unknown> | undefined)?.[key],
          loadConfig(environment, flags).config
        )
      )
    const config = join(dir, 'a.yaml')
    const flags = { [flag]: flag === 'upstream' ? [inFlag] : inFlag }
    t.equal(valueOf({}, { config }), inFile, `${flag}: the file`)
    t.equal(valueOf({ [variable]: inEnvironment }, { config }), inEnvironment, `${variable} over the file`)
    t.equal(valueOf({ [variable]: inEnvironment }, { config, ...flags }), inFlag, `--${flag} over both`)
    t.equal(valueOf({ [variable]: inEnvironment }, {}), inEnvironment, `${variable} over the default`)
    t.equal(valueOf({}, flags), inFlag, `--${flag} over the default`)
    t.equal(valueOf({ [variable]: '' }, { config }), inFile, `an empty ${variable} counts as not set`)
  }
})

t.test('VARVE_UPSTREAM with commas or repeated --upstream replace the upstreams of the file', async t => {
  const urls = (environment: Environment, flags: Flags): string[] =>
    load(t, 'upstreams: [{ name: old, url: http://old, headers: { authorization: Bearer old } }]', environment, flags)
      .config.upstreams.map(({ url }) => url)
  t.same(urls({ VARVE_UPSTREAM: 'http://a, https://b/key ,http://c:81' }, {}), [
    'http://a',
    'https://b/key',
    'http://c:81'
  ])
  t.same(urls({ VARVE_UPSTREAM: 'http://a' }, { upstream: ['http://d', 'http://e'] }), ['http://d', 'http://e'])
  t.same(
    load(t, 'upstreams: [{ url: http://old, headers: { authorization: Bearer old } }]', {}, { upstream: ['http://d'] })
      .config.upstreams[0]?.headers,
    {},
    'credentials of one upstream are never sent to another'
  )
})

t.test('${NAME} in a value is replaced from the environment as text, number or flag', async t => { // eslint-disable-line no-template-curly-in-string
  const text = `
listen: \${HOST}:\${PORT}
admin: { token: "\${TOKEN}" }
workers: \${WORKERS}
log: { access: "\${ACCESS}" }
chainId: \${CHAIN}
hedge: { share: "\${SHARE}" }
latest: { promote: "\${PROMOTE}", infoMs: "\${INFO}" }
upstreams: [{ url: "http://\${HOST}:1/\${TOKEN}", headers: { authorization: "Bearer \${TOKEN}", x-plain: "$$TOKEN and $$\{not a name}, $$$$" }, requestsPerSecond: "\${RATE}" }]
`
  const environment = {
    HOST: '127.0.0.1',
    PORT: '99',
    TOKEN: '12345',
    WORKERS: '3',
    ACCESS: 'true',
    CHAIN: 'null',
    SHARE: '0.25',
    PROMOTE: 'false',
    INFO: '0',
    RATE: ''
  }
  const { config } = load(t, text, environment)
  t.match(config, {
    listen: '127.0.0.1:99',
    admin: { token: '12345' },
    workers: 3,
    log: { access: true },
    chainId: null,
    hedge: { share: 0.25 },
    latest: { promote: false, infoMs: 0 }
  })
  t.match(config.upstreams, [{
    url: 'http://127.0.0.1:1/12345',
    // eslint-disable-next-line no-template-curly-in-string
    headers: { authorization: 'Bearer 12345', 'x-plain': '$TOKEN and ${not a name}, $$' },
    requestsPerSecond: null
  }])
})

t.test('a file that is not a configuration is reported with its name', async t => {
  const dir = t.testdir({
    'list.yaml': '- listen: h:1\n',
    'text.yaml': 'listen\n',
    'two.yaml': 'workers: 1\n---\nworkers: 2\n',
    dir: {}
  })
  const fileCases: [string, RegExp][] = [
    ['missing.yaml', /^no such file \(ENOENT\): check the path/],
    ['dir', /^is a folder \(EISDIR\): expected a file$/],
    ['list.yaml', /^expected a map of keys$/],
    ['text.yaml', /^expected a map of keys$/],
    ['two.yaml', /./]
  ]
  for (const [file, message] of fileCases) {
    const mistakes = mistakesOf(() => loadConfig({}, { config: join(dir, file) }))
    t.ok(mistakes.length > 0, file)
    for (const mistake of mistakes) {
      t.ok(mistakeText(mistake, join(dir, file)).startsWith(join(dir, file)), file)
      t.match(mistake.message, message, file)
    }
  }
  t.match(mistakesOf(() => loadConfig({ VARVE_CONFIG: join(dir, 'missing.yaml') }, {})), [{
    path: join(dir, 'missing.yaml')
  }])
})

t.test('keys in a file of their own join those of the configuration, and a mistake names that file', async t => {
  const folder = t.testdir({})
  const [config, keysFile] = [join(folder, 'varve.yaml'), join(folder, 'keys.yaml')]
  writeFileSync(config, `clients: { keys: [{ name: own, key: k-own }], keysFile: "${keysFile}" }`)
  const loadKeys = (text: string): Config['clients'] => {
    writeFileSync(keysFile, text)
    return loadConfig({}, { config }).config.clients
  }
  t.match(loadKeys('keys: [{ name: other, key: k-other, endpoints: [view], origins: ["https://a.example"] }]').keys, [
    { name: 'own', endpoints: null, origins: null, requestsPerDay: null },
    { name: 'other', key: 'k-other', endpoints: ['view'], origins: ['https://a.example'], requestsPerDay: null }
  ])
  t.equal(loadKeys('').keys.length, 1)
  for (
    const [text, path] of [
      ['keys:\n  - { name: a }', 'clients.keys.0.key'],
      ['keys:\n  - { name: a, key: "s3cret key" }', 'clients.keys.0.key'],
      ['keys:\n  - { name: a, key: k-a, endpoints: [views] }', 'clients.keys.0.endpoints.0'],
      ['keys:\n  - { name: a, key: k-a }\nrequired: true', 'clients.required'],
      ['keys:\n  - { name: own, key: k-a }', 'keys'],
      ['keys:\n  - { name: a, key: k-own }', 'keys']
    ] as const
  ) {
    try {
      loadKeys(text)
      t.fail(text)
    } catch (error) {
      t.match(error, { file: keysFile, mistakes: [{ path }] })
      t.notMatch((error as Error).message, /s3cret|k-own|k-a/)
    }
  }
})

t.test('each worker gets its share of limits, but of a rate, which workers take from one bucket', async t => {
  const config = configSchema.parse({
    workers: 3,
    upstreams: [{ url: 'http://h', maxConcurrent: 10, requestsPerSecond: 12 }, { url: 'http://g', maxConcurrent: 256 }],
    cache: { memory: { maxMb: 100 } }
  })
  const share = workerConfigOf(config)
  t.match(share, {
    upstreams: [{ maxConcurrent: 3, requestsPerSecond: 12 }, { maxConcurrent: 85, requestsPerSecond: null }]
  })
  t.ok(Number.isInteger(share.cache.memory.maxMb * 1024 * 1024))
  t.ok(share.cache.memory.maxMb * 3 <= 100 && share.cache.memory.maxMb * 3 > 99.9)
})
