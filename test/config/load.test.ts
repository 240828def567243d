import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parse, stringify } from 'yaml'
import { pollLimitsOf } from '../../src/upstreams/polling-policy.js'
import { keysNeedingRestart } from '../../src/config/restart-keys.js'
import { type Environment, type Flags, type LoadedConfig, loadConfig } from '../../src/config/load.js'
import { ConfigError, type Mistake, mistakeText } from '../../src/config/config-error.js'
import { type Config, configSchema } from '../../src/config/schema.js'
import { maskSecrets } from '../../src/config/secrets.js'
import { workerConfigOf } from '../../src/app/worker-group.js'

// Published keys with their defaults, and one upstream: renaming a key breaks operators' files.
const contract = `
listen: 127.0.0.1:8080
tls: { certFile: null, keyFile: null, minVersion: 1.2, ciphers: null }
admin: { listen: 127.0.0.1:9464, token: null, hosts: [] }
workers: 1
log: { level: info, levelNames: false, isoTimes: false, access: false, accessFields: null, accessSample: 1, accessErrorStatus: 400, accessSlowMs: 1000 }
trustProxy: []
chainId: null
mode: serve
upstreams:
  - name: node-a
    url: http://127.0.0.1:8081
    headers: { authorization: Bearer ... }
    resolve: any
    proxy: false
    timeoutMs: 5000
    maxConcurrent: 256
    requestsPerSecond: null
    caFile: null
    certFile: null
    keyFile: null
    ignoreCacheControl: false
    maxLagSeconds: 60
    priority: 0
    weight: 1
head: { pollMs: 1000 }
headers: { emit: [node, upstream] }
hedge: { share: 0.05, burst: 10, afterMs: 500 }
waitForVersion: { ms: 0, blocks: 2 }
cache:
  memory: { maxMb: 256 }
  disk: { path: null, maxGb: 10 }
  redis: { url: null, cluster: [], sentinel: { name: null, hosts: [], password: null }, username: null, password: null, tls: false, caFile: null, keyPrefix: varve, timeoutMs: 50, ttlSeconds: 2592000 }
  maxEntryMb: 8
http: { fastPath: true }
follow: { mode: off, maxAgeMs: 250, verify: 0.02 }
latest: { stateMs: 0, infoMs: 1000, indexMs: 250, gasMs: 500, promote: true }
pruned: { serveCached: true, answerLocally: true }
pages: { eventsDefault: 25, eventsTtlSeconds: 3600, pinned: false }
audit: { share: 0.001, followedShare: 0.01 }
limits: { bodyKb: 1024, headerKb: 16, connections: null, inFlightMb: null, loopLagMs: 100, client: { requestsPerSecond: null, burst: null, exemptHits: true } }
clients: { required: false, keys: [] }
passThrough: reads
tracing: { otlpUrl: null, sample: 0.01 }
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

/** Expects exactly these mistakes, as messages by path, in any order. */
function expectMistakes (t: Test, loading: () => unknown, expected: Record<string, string>): void {
  t.same(Object.fromEntries(mistakesOf(loading).map(({ path, message }) => [path, message])), expected)
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

t.test('--config overrides VARVE_CONFIG', async t => {
  const dir = t.testdir({ 'a.yaml': 'workers: 2', 'b.yaml': 'workers: 3' })
  const environment = { VARVE_CONFIG: join(dir, 'a.yaml') }
  t.equal(loadConfig(environment, {}).config.workers, 2)
  t.equal(loadConfig(environment, { config: join(dir, 'b.yaml') }).config.workers, 3)
  t.equal(loadConfig({ VARVE_CONFIG: '' }, {}).config.workers, 1)
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
  expectMistakes(t, () => loadConfig({ VARVE_UPSTREAM: 'http://a,,b' }, {}), {
    'upstreams.1.url (from VARVE_UPSTREAM)':
      'expected an http or https URL without credentials, query, fragment or a /v1 at its end, such as ' +
      'http://127.0.0.1:8081',
    'upstreams.2.url (from VARVE_UPSTREAM)':
      'expected an http or https URL without credentials, query, fragment or a /v1 at its end, such as ' +
      'http://127.0.0.1:8081'
  })
})

t.test('an upstream URL that ends in /v1 is rejected', async t => {
  for (const url of ['http://h/v1', 'http://h/key/v1/']) {
    expectMistakes(t, () => load(t, `upstreams: [{ url: "${url}" }]`), {
      'upstreams.0.url':
        'expected an http or https URL without credentials, query, fragment or a /v1 at its end, such as ' +
        'http://127.0.0.1:8081'
    })
  }
  t.ok(load(t, 'upstreams: [{ url: "http://h/v1key" }]'))
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
  t.equal(
    load(t, 'admin: { token: "$' + '{A}" }', { A: '$' + '{B}', B: 'no' }).config.admin.token,
    '$' + '{B}',
    'a replaced text is not expanded again'
  )
  expectMistakes(t, () => load(t, text, { ...environment, WORKERS: 'many', ACCESS: 'yes', SHARE: '7', INFO: '1.5' }), {
    workers: 'expected a number, got a text',
    'log.access': 'expected a boolean, got a text',
    'hedge.share': 'expected at most 1, got 7',
    'latest.infoMs': 'expected a whole number, or a text with a unit, such as 250ms, 5s or 2m, got 1.5'
  })
})

t.test('an unset ${NAME} is reported with its key and name', async t => { // eslint-disable-line no-template-curly-in-string
  const text = 'workers: $' + '{NO_WORKERS}\nupstreams: [{ url: "http://h", headers: { authorization: "$' + '{NO_A} $' +
    '{NO_B}" } }]\n'
  const [inUpstreams, path] = [{ line: 2, column: 58 }, 'upstreams.0.headers.authorization']
  t.same(mistakesOf(() => load(t, text)), [
    { path: 'workers', message: 'the environment variable NO_WORKERS is not set', place: { line: 1, column: 10 } },
    { path, message: 'the environment variable NO_A is not set', place: inUpstreams },
    { path, message: 'the environment variable NO_B is not set', place: inUpstreams }
  ])
})

t.test('all mistakes are reported at once, each with its key and the expected value', async t => {
  const keys = (text: string): string => `unknown key; expected one of ${text}`
  const url = 'expected an http or https URL without credentials, query, fragment or a /v1 at its end, such as ' +
    'http://127.0.0.1:8081'
  const address = 'expected HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080'
  const top = keys(
    'listen, tls, admin, workers, log, trustProxy, chainId, mode, upstreams, head, headers, hedge, ' +
      'waitForVersion, cache, follow, http, latest, pruned, pages, audit, limits, clients, passThrough, tracing, ' +
      'cors, downstream'
  )
  expectMistakes(t, () =>
    load(
      t,
      `
listen: nowhere
admin: { listen: 9464, port: 1 }
tls: { certFile: package.json }
workers: 1.5
log: { level: loud, access: 1, file: x }
trustProxy: 10.0.0.1
chainId: 256
mode: sometimes
upstreams:
  - { url: ftp://h }
  - { url: http://h?a=b, timeoutMs: 0, maxConcurrent: "5", headers: { "a b": c, d: "e\\nf" }, ignoreCacheControl: no, timeout: 1 }
  - { name: "a b", url: "http://h" }
  - { name: c }
head:
hedge: { share: -0.1, burst: -1, afterMs: 3600001 }
headers: { emit: [node, all], send: 1 }
cache: { memory: { maxMb: 0, max: 1 }, redis: { url: http://h, cluster: ["h:1", ":1"], sentinel: { hosts: ["h:65536"], host: 1 }, ttl: 1, keyPrefix: "" }, size: 1 }
limits: { client: { burst: 0, perSecond: 1 }, body: 1 }
clients: { keys: [{ name: a, key: "", rate: 1 }, { key: k }], required: "true", key: 1 }
passThrough: writes
cors: { origins: example.org, origin: 1 }
downstream: { cacheControl: on }
upstream: http://h
__proto__: 1
`
    ), {
    listen: 'expected HOST:PORT or unix:PATH, such as 127.0.0.1:8080 or unix:/run/varve/http.sock, got "nowhere"',
    'admin.listen': 'expected a text, got 9464',
    'admin.port': keys('listen, token, hosts'),
    tls: 'expected both certFile and keyFile, or neither',
    workers: 'expected a whole number, got 1.5',
    'log.level': 'expected one of fatal, error, warn, info, debug, trace, silent, got "loud"',
    'log.access': 'expected a boolean, got 1',
    'log.file': keys(
      'level, levelNames, isoTimes, access, accessFields, accessSample, accessErrorStatus, accessSlowMs'
    ),
    trustProxy: 'expected a list, got "10.0.0.1"',
    chainId: 'expected at most 255, got 256',
    mode: 'expected one of serve, observe, got "sometimes"',
    'upstreams.0.url': url,
    'upstreams.1.url': url,
    'upstreams.1.timeoutMs': 'expected at least 1, got 0',
    'upstreams.1.maxConcurrent': 'expected a number, got "5"',
    'upstreams.1.headers.***': 'expected a header name',
    'upstreams.1.headers.d': 'expected a header value without line breaks',
    'upstreams.1.ignoreCacheControl': 'expected a boolean, got "no"',
    'upstreams.1.timeout': keys(
      'name, url, headers, resolve, proxy, timeoutMs, maxConcurrent, requestsPerSecond, caFile, certFile, keyFile, ignoreCacheControl, maxLagSeconds, ' +
        'priority, weight'
    ),
    'upstreams.2.name': 'expected a name of letters, digits, _ . or -',
    'upstreams.3.url': 'expected a text',
    head: 'expected a map of keys, got null',
    'hedge.share': 'expected at least 0, got -0.1',
    'hedge.burst': 'expected at least 0, got -1',
    'hedge.afterMs': 'expected at most 3600000, got 3600001',
    'headers.emit.1': 'expected one of node, upstream, got "all"',
    'headers.send': keys('emit'),
    'cache.memory.maxMb': 'expected at least 1, got 0',
    'cache.memory.max': keys('maxMb'),
    'cache.redis.url': 'expected a URL such as redis://127.0.0.1:6379',
    'cache.redis.cluster.1': address,
    'cache.redis.sentinel.hosts.0': address,
    'cache.redis': 'expected one of url, cluster and sentinel',
    'cache.redis.sentinel': 'expected both a name and hosts, or neither',
    'cache.redis.sentinel.host': keys('name, hosts, password'),
    'cache.redis.ttl': keys(
      'url, cluster, sentinel, username, password, tls, caFile, keyPrefix, timeoutMs, ttlSeconds'
    ),
    'cache.redis.keyPrefix': 'expected a name of letters, digits, _ . or -',
    'cache.size': keys('memory, disk, redis, maxEntryMb'),
    'limits.client.burst': 'expected at least 1, got 0',
    'limits.client': 'expected requestsPerSecond together with burst',
    'limits.client.perSecond': keys('requestsPerSecond, burst, exemptHits'),
    'limits.body': keys('bodyKb, headerKb, connections, inFlightMb, loopLagMs, client'),
    'clients.keys.0.key': 'expected a key of printable ASCII without blanks',
    'clients.keys.0.rate': keys('name, key, requestsPerSecond'),
    'clients.keys.1.name': 'expected a text, got nothing',
    'clients.required': 'expected a boolean, got "true"',
    'clients.key': keys('required, keys'),
    passThrough: 'expected one of none, reads, transactions, all, got "writes"',
    'cors.origins': 'expected "*" or a list of origins',
    'cors.origin': keys('origins'),
    'downstream.cacheControl': 'expected one of revalidate, immutable, off, got "on"',
    upstream: top,
    ['__proto__']: top
  })
})

t.test('an origin must be exactly as browsers send it', async t => {
  expectMistakes(
    t,
    () =>
      load(
        t,
        'cors: { origins: [app.example, "https://app.example/", "https://App.example", ' +
          '"https://app.example:443", "https://app.example", "http://localhost:3000", "null"] }'
      ),
    Object.fromEntries(
      ['app.example', 'https://app.example/', 'https://App.example', 'https://app.example:443'].map((
        _given,
        at
      ) => [`cors.origins.${at}`, 'expected an origin as browsers send it, such as https://app.example'])
    )
  )
})

t.test('a mistake in a flag or a variable names it', async t => {
  expectMistakes(
    t,
    () =>
      loadConfig({ VARVE_LISTEN: ':80', VARVE_WORKERS: '0', VARVE_REDIS: 'localhost' }, {
        admin: '[::1]',
        'log-level': 'INFO',
        upstream: ['h:80']
      }),
    {
      'listen (from VARVE_LISTEN)':
        'expected HOST:PORT or unix:PATH, such as 127.0.0.1:8080 or unix:/run/varve/http.sock',
      'workers (from VARVE_WORKERS)': 'expected at least 1, got 0',
      'cache.redis.url (from VARVE_REDIS)': 'expected a URL such as redis://127.0.0.1:6379',
      'admin.listen (from --admin)': 'expected HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080',
      'log.level (from --log-level)': 'expected one of fatal, error, warn, info, debug, trace, silent, got "INFO"',
      'upstreams.0.url (from --upstream)':
        'expected an http or https URL without credentials, query, fragment or a /v1 at its end, such as ' +
        'http://127.0.0.1:8081'
    }
  )
})

t.test('upstream URLs have no credentials, query or fragment, and Redis URLs need a host', async t => {
  const isRejected = (environment: Environment): boolean => mistakesOf(() => loadConfig(environment, {})).length === 1
  for (const url of ['http://127.0.0.1:8081', 'https://h/prefix/key', 'http://[::1]:80', 'HTTP://h'.toLowerCase()]) {
    t.notOk(isRejected({ VARVE_UPSTREAM: url }), url)
  }
  for (
    const url of [
      'h',
      'h:80',
      'ws://h',
      'http://',
      'http://h:99999',
      'http://u@h',
      'http://u:p@h',
      'http://:p@h',
      'http://u:1/p@h',
      'http://h?key=1',
      'http://h#a',
      ' http//h'
    ]
  ) t.ok(isRejected({ VARVE_UPSTREAM: url }), url)
  for (const url of ['redis://h', 'rediss://u:p@h:6380/2', 'redis://[::1]:1']) {
    t.notOk(isRejected({ VARVE_REDIS: url }), url)
  }
  for (
    const url of [
      'redis://',
      'redis:///1',
      'h:6379',
      'redis://h:port',
      'redis://h:99999',
      'redis://[',
      'redis://h/one',
      'redis://u:1/p@h',
      'http://h'
    ]
  ) t.ok(isRejected({ VARVE_REDIS: url }), url)
})

t.test('a Redis URL with query or fragment is rejected, since it could override varve\'s options', async t => {
  const mistake = 'expected a URL without query or fragment: use the keys beside it instead'
  for (
    const url of ['redis://h?enableOfflineQueue=true', 'rediss://:s3cret@h:1/2?db=3', 'redis://h/?', 'redis://h#a']
  ) {
    expectMistakes(t, () => load(t, `cache: { redis: { url: "${url}" } }`), { 'cache.redis.url': mistake })
    expectMistakes(t, () => loadConfig({}, { redis: url }), { 'cache.redis.url (from --redis)': mistake })
  }
})

t.test('two upstreams cannot share a name, given or generated', async t => {
  expectMistakes(
    t,
    () =>
      load(
        t,
        'upstreams: [{ name: a, url: "http://h" }, { name: b, url: "http://h/b" }, { name: a, url: ' +
          '"http://i" }, { url: "http://h/d" }, { name: node-4, url: "http://h/e" }]'
      ),
    {
      'upstreams.2.name': 'expected a unique name, but upstreams.0 has the same one',
      'upstreams.4.name': 'expected a unique name, but upstreams.3 has the same one'
    }
  )
})

t.test('TLS needs both files or neither', async t => {
  t.same(load(t, 'tls: { certFile: package.json, keyFile: LICENSE }').config.tls, {
    certFile: 'package.json',
    keyFile: 'LICENSE',
    minVersion: 1.2,
    ciphers: null
  })
  for (
    const tls of ['{ certFile: package.json }', '{ keyFile: LICENSE }', '{ certFile: package.json, keyFile: null }']
  ) {
    expectMistakes(t, () => load(t, `tls: ${tls}`), { tls: 'expected both certFile and keyFile, or neither' })
  }
})

t.test('settings that cannot start or have no effect are rejected', async t => {
  expectMistakes(t, () => load(t, 'listen: 127.0.0.1:8080\nadmin: { listen: 127.0.0.1:8080 }'), {
    'admin.listen': 'expected another address than listen'
  })
  t.equal(load(t, 'listen: 127.0.0.1:0\nadmin: { listen: 127.0.0.1:0 }').config.admin.listen, '127.0.0.1:0')
  expectMistakes(t, () => load(t, 'limits: { client: { burst: 20 } }'), {
    'limits.client': 'expected requestsPerSecond together with burst'
  })
})

t.test('Redis is configured as a URL, a cluster, or sentinels with a master name, and only one', async t => {
  const one = 'expected one of url, cluster and sentinel'
  const both = 'expected both a name and hosts, or neither'
  const cases: [string, Record<string, string>][] = [
    ['{ url: "redis://h", cluster: ["h:1"] }', { 'cache.redis': one }],
    ['{ url: "redis://h", sentinel: { name: m, hosts: ["h:1"] } }', { 'cache.redis': one }],
    ['{ cluster: ["h:1"], sentinel: { name: m, hosts: ["h:1"] } }', { 'cache.redis': one }],
    ['{ sentinel: { name: m } }', { 'cache.redis.sentinel': both }],
    ['{ sentinel: { hosts: ["h:1"] } }', { 'cache.redis.sentinel': both }],
    ['{ sentinel: { name: m, hosts: ["h"] } }', {
      'cache.redis.sentinel.hosts.0': 'expected HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080'
    }],
    ['{ cluster: ["h:1"], tls: perhaps, timeoutMs: 0 }', {
      'cache.redis.tls': 'expected a boolean, got "perhaps"',
      'cache.redis.timeoutMs': 'expected at least 1, got 0'
    }]
  ]
  for (const [redis, mistakes] of cases) expectMistakes(t, () => load(t, `cache: { redis: ${redis} }`), mistakes)
  for (
    const redis of [
      '{ url: "redis://h" }',
      '{ cluster: ["h:1", "[::1]:2"] }',
      '{ sentinel: { name: m, hosts: ["h:1"] } }',
      '{}'
    ]
  ) t.ok(load(t, `cache: { redis: ${redis} }`), redis)
  expectMistakes(t, () => load(t, 'cache: { redis: { cluster: ["h:1"] } }', {}, { redis: 'redis://h' }), {
    'cache.redis': one
  })
})

t.test('an upstream needs both its certificate and its key, or neither', async t => {
  expectMistakes(t, () => load(t, 'upstreams: [{ url: "https://h", certFile: LICENSE }]'), {
    'upstreams.0': 'expected both certFile and keyFile, or neither'
  })
  t.match(load(t, 'upstreams: [{ url: "https://h", certFile: LICENSE, keyFile: LICENSE }]').config.upstreams, [
    { certFile: 'LICENSE' }
  ])
})

t.test('a Redis CA without TLS, or an unreadable one, is rejected', async t => {
  const mistake = { 'cache.redis': 'expected tls: true or a rediss:// URL together with a caFile' }
  for (const redis of ['url: "redis://h", caFile: LICENSE', 'cluster: ["h:1"], caFile: LICENSE', 'caFile: LICENSE']) {
    expectMistakes(t, () => load(t, `cache: { redis: { ${redis} } }`), mistake)
  }
  for (
    const redis of [
      'url: "rediss://h", caFile: LICENSE',
      'url: "redis://h", tls: true, caFile: LICENSE',
      'cluster: ["h:1"], tls: true, caFile: LICENSE'
    ]
  ) t.equal(load(t, `cache: { redis: { ${redis} } }`).config.cache.redis.caFile, 'LICENSE', redis)
  expectMistakes(t, () => load(t, 'cache: { redis: { url: "rediss://h", caFile: /nowhere/ca.pem } }'), {
    'cache.redis.caFile': 'expected a file that can be read, got "/nowhere/ca.pem"'
  })
})

t.test('a file that is not a configuration is reported with its name', async t => {
  const dir = t.testdir({
    'list.yaml': '- listen: h:1\n',
    'text.yaml': 'listen\n',
    'open.yaml': 'listen: [\n',
    'twice.yaml': 'workers: 1\nworkers: 2\n',
    'two.yaml': 'workers: 1\n---\nworkers: 2\n',
    'alias.yaml': 'workers: *one\n',
    dir: {}
  })
  const fileCases: [string, RegExp][] = [
    ['missing.yaml', /^no such file \(ENOENT\): check the path/],
    ['dir', /^is a folder \(EISDIR\): expected a file$/],
    ['list.yaml', /^expected a map of keys$/],
    ['text.yaml', /^expected a map of keys$/],
    ['open.yaml', /./],
    ['twice.yaml', /^Map keys must be unique/],
    ['two.yaml', /./],
    ['alias.yaml', /^Unresolved alias/]
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

t.test('a secret that is mistyped or misplaced is not repeated in the mistake', async t => {
  const texts = [
    'admin: { token: [s3cret] }',
    'admin: { token: 5, tokens: s3cret }',
    'admin: s3cret',
    'upstreams: [{ url: "http://u:s3cret@h" }]',
    'upstreams: [{ url: "https://h/s3cret?x=1" }]',
    'upstreams: [{ url: s3cret }]',
    'upstreams: ["https://h/s3cret"]',
    'upstreams: https://h/s3cret',
    'upstreams: { url: https://h/s3cret }',
    'upstreams: [{ url: "http://h", headers: { authorization: ["s3cret"] } }]',
    'upstreams: [{ url: "http://h", headers: { authorization: "s3cret\\n" } }]',
    'upstreams: [{ url: "http://h", headers: "authorization: s3cret" }]',
    'clients: { keys: [s3cret] }',
    'clients: { keys: s3cret }',
    'clients: s3cret',
    'clients: { keys: [{ name: a, key: [s3cret] }] }',
    'cache: { redis: "redis://:s3cret@h" }',
    'cache: "redis://:s3cret@h"',
    'cache: { redis: { url: "//:s3cret@h" } }',
    'cache: { redis: { cluster: ["redis://:s3cret@h:1"] } }',
    'cache: { redis: { cluster: "redis://:s3cret@h:1" } }',
    'cache: { redis: { sentinel: { hosts: ["redis://:s3cret@h:1"] } } }',
    'cache: { redis: { sentinel: "redis://:s3cret@h:1" } }',
    'cache: { redis: { password: [s3cret] } }',
    'cache: { redis: { sentinel: { password: [s3cret] } } }',
    'cache: { redis: { sentinel: { name: "s3cret s3cret", hosts: ["h:1"] } } }',
    'cache: { redis: { password: s3cret, url: "redis://:s3cret@h", cluster: ["h:1"] } }',
    'cache: { redis: { password: s3cret, caFile: LICENSE } }'
  ]
  for (const text of texts) {
    const mistakes = mistakesOf(() => load(t, text))
    t.ok(mistakes.length > 0, text)
    t.notMatch(JSON.stringify(mistakes), /s3cret/, text)
  }
  t.notMatch(
    JSON.stringify(
      mistakesOf(() => loadConfig({ VARVE_UPSTREAM: 'http://u:s3cret@h', VARVE_REDIS: '//:s3cret@h' }, {}))
    ),
    /s3cret/
  )
  t.match(
    mistakesOf(() =>
      load(
        t,
        'cache: { redis: { timeoutMs: f4st, keyPrefix: "a b" } }\nclients: { required: p3rhaps }\nadmin: { listen: 0 }'
      )
    ).map(({ message }) => message.replace(/.*, got/, 'got')).sort(),
    ['expected a name of letters, digits, _ . or -', 'got 0', 'got a text', 'got a text'],
    'numbers are repeated, texts with digits are not'
  )
})

t.test('printed settings mask tokens, keys, headers, credentials and paths of upstream URLs', async t => {
  const { config } = load(
    t,
    `
admin: { token: s3cret }
upstreams:
  - { url: https://h:444/s3cret/, headers: { authorization: Bearer s3cret, x-other: s3cret, s3cret: x } }
  - { name: plain, url: "http://h:80" }
clients: { required: true, keys: [{ name: shown, key: s3cret, requestsPerSecond: 5 }] }
cache: { redis: { url: "rediss://s3cret:s3cret@h:6380/2" } }
`
  )
  const masked = maskSecrets(config)
  t.notMatch(JSON.stringify(masked), /s3cret/)
  t.match(masked, {
    admin: { listen: '127.0.0.1:9464', token: '***' },
    upstreams: [{
      url: 'https://h:444/***',
      headers: { authorization: '***', 'x-other': '***', '*** (header 3)': '***' }
    }, { name: 'plain', url: 'http://h/' }],
    clients: { required: true, keys: [{ name: 'shown', key: '***', requestsPerSecond: 5 }] },
    cache: { redis: { url: 'rediss://***:***@h:6380/2' } }
  })
  t.match(config.admin.token, 's3cret', 'the settings themselves stay unmasked')
  t.equal(maskSecrets(loadConfig({ VARVE_REDIS: 'redis://h:1' }, {}).config).cache.redis.url, 'redis://h:1')
  t.equal(
    maskSecrets(loadConfig({ VARVE_REDIS: 'redis://:s3cret@h:1' }, {}).config).cache.redis.url,
    'redis://:***@h:1'
  )
})

t.test('printed settings mask both Redis passwords, and show null if there are none', async t => {
  const { config } = load(
    t,
    'cache: { redis: { sentinel: { name: m, hosts: ["h:1"], password: s3cret }, username: shown, password: s3cret } }'
  )
  const { redis } = maskSecrets(config).cache
  t.notMatch(JSON.stringify(redis), /s3cret/)
  t.match(redis, {
    url: null,
    username: 'shown',
    password: '***',
    sentinel: { name: 'm', hosts: ['h:1'], password: '***' }
  })
  t.match(config.cache.redis, { password: 's3cret', sentinel: { password: 's3cret' } })
  t.match(maskSecrets(loadConfig({}, {}).config).cache.redis, {
    username: null,
    password: null,
    sentinel: { password: null }
  })
})

t.test('more workers than an upstream\'s limits can be divided among are rejected', async t => {
  const mistakeAt = (at: number): Record<string, string> => ({
    workers: `expected fewer workers: each needs a share of upstreams.${at}.maxConcurrent and requestsPerSecond, got 3`
  })
  expectMistakes(
    t,
    () => load(t, 'workers: 3\nupstreams: [{ url: "http://a" }, { url: "http://b", maxConcurrent: 3 }]'),
    mistakeAt(1)
  )
  expectMistakes(t, () => load(t, 'workers: 3\nupstreams: [{ url: "http://a", requestsPerSecond: 4 }]'), mistakeAt(0))
  t.equal(
    load(t, 'workers: 3\nupstreams: [{ url: "http://b", maxConcurrent: 4, requestsPerSecond: 5 }]').config.workers,
    3
  )
  t.equal(load(t, 'upstreams: [{ url: "http://b", maxConcurrent: 1, requestsPerSecond: 1 }]').config.workers, 1)
})

t.test('each worker gets its share of limits, and workers and polls together stay within them', async t => {
  const config = configSchema.parse({
    workers: 3,
    upstreams: [{ url: 'http://h', maxConcurrent: 10, requestsPerSecond: 12 }, { url: 'http://g', maxConcurrent: 256 }],
    cache: { memory: { maxMb: 100 } }
  })
  const share = workerConfigOf(config)
  t.match(share, {
    upstreams: [{ maxConcurrent: 3, requestsPerSecond: 3 }, { maxConcurrent: 82, requestsPerSecond: null }],
    hedge: { burst: 3, share: 0.05 }
  })
  t.ok(Number.isInteger(share.cache.memory.maxMb * 1024 * 1024))
  t.ok(share.cache.memory.maxMb * 3 <= 100 && share.cache.memory.maxMb * 3 > 99.9)
  t.equal(workerConfigOf({ ...config, hedge: { ...config.hedge, burst: 0 } }).hedge.burst, 0, 'off is off')
  t.equal(workerConfigOf({ ...config, hedge: { ...config.hedge, burst: 2 } }).hedge.burst, 1)
  for (const requestsPerSecond of [2, 3, 5, 10, 1000]) {
    for (const pollMs of [10, 1000, 600_000]) {
      const one = {
        ...config,
        head: { pollMs },
        upstreams: config.upstreams.slice(0, 1).map(upstream => ({ ...upstream, requestsPerSecond }))
      }
      const polls = pollLimitsOf({ maxConcurrent: 10, requestsPerSecond }, pollMs)
      const [worker] = workerConfigOf(one).upstreams
      t.ok(
        (worker?.requestsPerSecond ?? 0) * 3 + (polls.requestsPerSecond ?? 0) <= requestsPerSecond,
        `${requestsPerSecond} every ${pollMs}`
      )
      t.ok((worker?.maxConcurrent ?? 0) * 3 + polls.maxConcurrent <= 10)
    }
  }
})

t.test('changed keys that need a restart are listed', async t => {
  const of = (text: string): Config => load(t, text).config
  const before = of('upstreams: [{ url: "http://a" }]')
  t.same(
    keysNeedingRestart(
      before,
      of('upstreams: [{ url: "http://b" }]\nlimits: { bodyKb: 5 }\nlog: { level: warn }\nadmin: { token: other }')
    ),
    []
  )
  t.same(
    keysNeedingRestart(
      before,
      of(
        'listen: h:1\nadmin: { listen: "h:2" }\nchainId: 4\nhead: { pollMs: 50 }\ncache: { redis: { url: ' +
          '"redis://h" } }\nworkers: 2\nupstreams: [{ url: "http://a" }]'
      )
    ),
    ['listen', 'admin.listen', 'workers', 'chainId', 'head', 'cache']
  )
})

t.test('an unset variable, an invalid value and a duplicate name are reported together', async t => {
  expectMistakes(
    t,
    () =>
      load(
        t,
        'workers: $' +
          '{NO_WORKERS}\nlisten: nowhere\nupstreams: [{ name: a, url: "http://h" }, { name: a, url: h }, 5]\n'
      ),
    {
      workers: 'the environment variable NO_WORKERS is not set',
      listen: 'expected HOST:PORT or unix:PATH, such as 127.0.0.1:8080 or unix:/run/varve/http.sock, got "nowhere"',
      'upstreams.1.name': 'expected a unique name, but upstreams.0 has the same one',
      'upstreams.1.url':
        'expected an http or https URL without credentials, query, fragment or a /v1 at its end, such as ' +
        'http://127.0.0.1:8081',
      'upstreams.2': 'expected a map of keys'
    }
  )
})

t.test('YAML errors are all reported with line and column, without text from the file', async t => {
  const config = join(t.testdir({}), 'v.yaml')
  const texts: [string, string[]][] = [
    ['admin: { token: s3cret }\nadmin: 5\nworkers: 1\nworkers: 2\n', [
      `${config}:2:1: Map keys must be unique`,
      `${config}:4:1: Map keys must be unique`
    ]],
    ['admin: { token: s3cret, token: s3cret }\n', [`${config}:1:25: Map keys must be unique`]],
    ['admin:\n  token: "s3cret\n', [`${config}:3:1: Missing closing "quote`]],
    ['admin: { token: *s3cret }\n', [`${config}: Unresolved alias (the anchor must be set before the alias)`]],
    ['admin: { token: !s3cret s3cret }\n', [
      `${config}:1:17: unknown tag; a value that begins with ! needs quotes`
    ]]
  ]
  for (const [text, mistakes] of texts) {
    writeFileSync(config, text)
    t.same(mistakesOf(() => loadConfig({}, { config })).map(mistake => mistakeText(mistake, config)), mistakes)
  }
})

t.test('a mistyped flag or variable is quoted, unless it could be a secret', async t => {
  for (
    const [flags, message] of [
      [{ 'log-level': 'inf' }, /, got "inf"$/],
      [{ workers: 'two' }, /, got "two"$/],
      [{ 'log-level': 's3cret' }, /silent$/],
      [{ redis: 'secret' }, /redis:\/\/127\.0\.0\.1:6379$/]
    ] as const
  ) t.match(mistakesOf(() => loadConfig({}, flags)), [{ message }])
})

t.test('a value from outside the file is a number, a flag or null, never YAML', async t => {
  for (const text of ['[1', '*a', '!x 1', '{ a: 1 }', '0x10', '1 # one', ' 1', '1_000']) {
    expectMistakes(t, () => loadConfig({ VARVE_WORKERS: text }, {}), {
      'workers (from VARVE_WORKERS)': 'expected a number, got a text'
    })
  }
})

t.test('a flag does not hide a mistake in the file around its key', async t => {
  expectMistakes(
    t,
    () =>
      load(t, 'admin: off\ncache: { redis: [] }\nlog: 5', {}, {
        admin: 'h:1',
        redis: 'redis://h',
        'log-level': 'info'
      }),
    {
      admin: 'expected a map of keys',
      'cache.redis': 'expected a map of keys',
      log: 'expected a map of keys, got 5'
    }
  )
})
