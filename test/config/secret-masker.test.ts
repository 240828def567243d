import t from 'tap'
import { SecretMasker } from '../../src/config/secrets.js'
import { configSchema } from '../../src/config/schema.js'

const config = configSchema.parse({
  admin: { token: 'adm1n-token' },
  upstreams: [
    {
      url: 'https://gateway.example/api/p4th-key-of-a-gateway/',
      headers: { authorization: 'Bearer n0de-key', 'x-pin': '77' }
    },
    { url: 'http://127.0.0.1:8081' }
  ],
  cache: {
    redis: { url: 'redis://us%2Fer:p%40ss"w\\ord@127.0.0.1:6379/2', username: null, sentinel: { password: null } }
  },
  clients: { keys: [{ name: 'app', key: 'cl1ent-key' }] },
  tracing: { otlpUrl: 'https://traces.example/c0llector-key/v1/traces' }
})

t.test('secrets of the configuration are masked in any text: tokens, keys, headers, URL parts', async t => {
  const masking = new SecretMasker(config)
  const cases: [string, string][] = [
    ['token adm1n-token', 'token ***'],
    ['sent Bearer n0de-key', 'sent ***'],
    ['the key n0de-key alone', 'the key *** alone'],
    ['GET https://gateway.example/api/p4th-key-of-a-gateway/v1', 'GET https://gateway.example***/v1'],
    ['path p4th-key-of-a-gateway', 'path ***'],
    ['POST https://traces.example/c0llector-key/v1/traces', 'POST https://traces.example***'],
    ['path /c0llector-key', 'path /***'],
    ['connect redis://us%2Fer:p%40ss"w\\ord@127.0.0.1:6379/2', 'connect redis://***:p%40ss"w\\ord@127.0.0.1:6379/2'],
    ['AUTH \'us/er\' \'p@ss"w\\ord\'', 'AUTH \'***\' \'***\''],
    ['client cl1ent-key twice cl1ent-key', 'client *** twice ***']
  ]
  for (const [text, masked] of cases) t.equal(masking.mask(text), masked)
})

t.test('a short secret is masked only as a separate word', async t => {
  const masking = new SecretMasker(config)
  t.equal(masking.mask('pin 77, but 1777 items at 127.0.0.1:8081'), 'pin ***, but 1777 items at 127.0.0.1:8081')
  t.equal(new SecretMasker(configSchema.parse({})).mask('nothing is secret here'), 'nothing is secret here')
})

t.test('a secret is masked in JSON in any escaped form, and all else stays exact', async t => {
  const masking = new SecretMasker(config)
  const line = `${
    JSON.stringify({ level: 50, err: { message: 'got p@ss"w\\ord', stack: 'Error:\nn0de-key\n' }, 'adm1n-token': 1 })
  }\n`
  t.same(JSON.parse(masking.maskJson(line)), {
    level: 50,
    err: { message: 'got ***', stack: 'Error:\n***\n' },
    '***': 1
  })
  t.equal(
    new SecretMasker(
      configSchema.parse({ admin: { token: 'level' }, cache: { redis: { url: 'redis://default:msg@h' } } })
    )
      .maskJson('{"level":40,"msg":"default level"}\n'),
    '{"level":40,"msg":"default ***"}\n',
    'field names and common words stay'
  )
  const large = '{"level":40,"version":18446744073709551615,"msg":"a \\u00e9 b"}\n'
  t.equal(masking.maskJson(large), large)
})

t.test('secrets of a reloaded configuration are masked, and those of earlier ones too', async t => {
  const masking = new SecretMasker(config)
  masking.addSecretsOf(configSchema.parse({ admin: { token: 'second-token' } }))
  t.equal(masking.mask('adm1n-token second-token'), '*** ***')
  masking.addSecretsOf(configSchema.parse({ admin: { token: 'third-token' } }))
  t.equal(
    masking.mask('adm1n-token second-token third-token'),
    '*** *** ***',
    'one may be in use until the restart'
  )
  for (let nth = 0; nth < 25; nth++) {
    masking.addSecretsOf(
      configSchema.parse({
        clients: {
          keys: Array.from({ length: 1000 }, (_, at) => ({ name: `c${at}`, key: `key-${nth}-of-client-${at}` }))
        }
      })
    )
  }
  t.equal(masking.mask('adm1n-token key-24-of-client-999'), 'adm1n-token ***', 'up to a limit')
})

t.test('a secret that is not valid URL encoding is masked literally', async t => {
  t.equal(new SecretMasker(configSchema.parse({ admin: { token: '100%-secret' } })).mask('100%-secret'), '***')
})
