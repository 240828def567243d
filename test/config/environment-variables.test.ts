import { join } from 'node:path'
import t from 'tap'
import { loadConfig } from '../../src/config/load.js'
import { knownVariables } from '../../src/config/load.js'
import { runCommand } from '../cli/command.js'

const serve = ['serve', '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0']

t.test('a mistyped VARVE_UPSTREM ends serve and check with 2 and names VARVE_UPSTREAM', async t => {
  for (const argv of [serve, [...serve, '--sandbox'], ['check'], ['explain', 'GET', '/v1']]) {
    const { code, out, err } = await runCommand(t, argv, { VARVE_UPSTREM: 'http://127.0.0.1:9' })
    t.same([code, out], [2, ''], argv.join(' '))
    t.match(
      err,
      /^ {2}VARVE_UPSTREM: unknown environment variable; the nearest known name is VARVE_UPSTREAM: rename the variable, or unset it$/m
    )
    t.notMatch(err, /127\.0\.0\.1:9/, 'the value may be a secret')
  }
})

t.test('every unknown variable is a separate mistake, even an empty one', async t => {
  const result = await runCommand(t, ['check'], {
    VARVE_FOLDER: '/var',
    VARVE_SANDOBX: '',
    VARVE_: '1',
    VARVE_TOKEN: 's3cret',
    VARVE_SANDBOX: '1',
    HOME: '/'
  })
  t.match(result.err, /^varve: the configuration has 4 mistakes:\n/)
  for (const name of ['VARVE_FOLDER', 'VARVE_SANDOBX', 'VARVE_', 'VARVE_TOKEN']) {
    t.match(result.err, `\n  ${name}: unknown environment variable; the nearest known name is VARVE_`)
  }
  t.notMatch(result.err, /s3cret/)
})

t.test('variables that Kubernetes sets for Services named varve or varve-* are accepted', async t => {
  const of = (prefix: string): Record<string, string> =>
    Object.fromEntries([
      'SERVICE_HOST',
      'SERVICE_PORT',
      'SERVICE_PORT_HTTP_API',
      'PORT',
      'PORT_8080_TCP',
      'PORT_8080_TCP_PROTO',
      'PORT_8080_TCP_PORT',
      'PORT_8080_TCP_ADDR',
      'PORT_53_UDP',
      'PORT_53_UDP_ADDR'
    ].map(name => [`${prefix}_${name}`, 'tcp://10.0.0.1:8080']))
  t.equal(loadConfig({ ...of('VARVE'), ...of('VARVE_REDIS'), ...of('VARVE_ADMIN_2') }, {}).isSandbox, false)
  for (
    const name of ['VARVE_PORTS', 'VARVE_SERVICE', 'VARVE_PORT_TCP', 'VARVE_PORT_8080', 'VARVE_REDISPORT', 'VARVE_port']
  ) t.throws(() => loadConfig({ [name]: '1' }, {}), { message: new RegExp(`^${name}: unknown`) }, name)
})

t.test('a VARVE_ variable is accepted if the file refers to it, and others are rejected', async t => {
  const config = join(
    t.testdir({
      'v.yaml': 'upstreams: [{ url: "http://h", headers: { authorization: "Bearer $' + '{VARVE_NODE_KEY}" } }]'
    }),
    'v.yaml'
  )
  t.equal(loadConfig({ VARVE_NODE_KEY: 'k' }, { config }).config.upstreams[0]?.headers['authorization'], 'Bearer k')
  t.throws(() => loadConfig({ VARVE_NODE_KEY: 'k', VARVE_NODE_KEYS: 'k' }, { config }), {
    message: /^VARVE_NODE_KEYS: unknown/
  })
  t.throws(() => loadConfig({ VARVE_NODE_KEY: 'k' }, {}), { message: /^VARVE_NODE_KEY: unknown/ })
})

t.test('each variable that varve reads is accepted', async t => {
  const values: Record<string, string> = {
    VARVE_UPSTREAM: 'http://h',
    VARVE_LISTEN: 'h:1',
    VARVE_ADMIN: 'h:2',
    VARVE_REDIS: 'redis://h',
    VARVE_WORKERS: '2',
    VARVE_LOG_LEVEL: 'warn',
    VARVE_CLIENT_KEY: 'k',
    VARVE_ADMIN_TOKEN: 't',
    VARVE_DISK: '',
    VARVE_SANDBOX: '0',
    VARVE_CONFIG: ''
  }
  t.same(Object.keys(values).sort(), [...knownVariables].sort())
  t.match(loadConfig(values, {}), { isSandbox: false, config: { workers: 2, upstreams: [{ url: 'http://h' }] } })
})

t.test('the variables of OpenTelemetry set up tracing, and override the file', async t => {
  const config = join(
    t.testdir({ 'v.yaml': 'tracing: { otlpUrl: "http://file:1", sample: 0.5, serviceName: file }' }),
    'v.yaml'
  )
  const tracing = (environment: Record<string, string>): object => loadConfig(environment, { config }).config.tracing
  t.match(tracing({}), { otlpUrl: 'http://file:1', sample: 0.5, serviceName: 'file', headers: {} })
  t.same(
    tracing({
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318',
      OTEL_EXPORTER_OTLP_HEADERS: 'Api-Key=s3cret%3D1, tenant=a=b',
      OTEL_SERVICE_NAME: 'reads',
      OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
      OTEL_TRACES_SAMPLER_ARG: '0.25'
    }),
    {
      otlpUrl: 'http://collector:4318',
      headers: { 'api-key': 's3cret=1', tenant: 'a=b' },
      serviceName: 'reads',
      sample: 0.25
    }
  )
  t.match(tracing({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://a', OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://b' }), {
    otlpUrl: 'http://b'
  })
  t.match(tracing({ OTEL_TRACES_SAMPLER: 'always_on' }), { otlpUrl: 'http://file:1', sample: 1 })
  t.match(tracing({ OTEL_TRACES_SAMPLER: 'always_off' }), { otlpUrl: null })
  t.match(tracing({ OTEL_SDK_DISABLED: 'true' }), { otlpUrl: null })
  for (
    const [environment, message] of [
      [
        { OTEL_TRACES_SAMPLER: 'jaeger_remote' },
        /^OTEL_TRACES_SAMPLER: expected always_on, always_off or traceidratio/m
      ],
      [
        { OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '2' },
        /tracing\.sample \(from OTEL_TRACES_SAMPLER\)/
      ],
      [
        { OTEL_EXPORTER_OTLP_ENDPOINT: 'collector' },
        /tracing\.otlpUrl \(from OTEL_EXPORTER_OTLP_ENDPOINT\): expected the http/
      ],
      [{ OTEL_EXPORTER_OTLP_HEADERS: 's3cret' }, /tracing\.headers\S* \(from OTEL_EXPORTER_OTLP_HEADERS\)/]
    ] as const
  ) {
    t.throws(() => tracing(environment), { message })
  }
  t.throws(() => tracing({ OTEL_EXPORTER_OTLP_HEADERS: 's3cret' }), { message: /^(?![^]*s3cret)/ })
  const masked = await runCommand(t, ['check', config], {
    OTEL_EXPORTER_OTLP_HEADERS: 'key=s3cret',
    VARVE_UPSTREAM: 'http://h'
  })
  t.equal(masked.code, 0)
  t.notMatch(masked.out, /s3cret/)
})
