import { execFileSync } from 'node:child_process'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import fc from 'fast-check'
import t from 'tap'
import { stringify } from 'yaml'
import { bannerOf } from '../../src/cli/serve.js'
import { check as checkCommand } from '../../src/cli/check.js'
import { explain } from '../../src/cli/explain.js'
import { type Io } from '../../src/app/io.js'
import { type Environment, type Flags, loadConfig } from '../../src/config/load.js'
import { ConfigError } from '../../src/config/config-error.js'
import { type Config, configSchema } from '../../src/config/schema.js'
import { maskSecrets } from '../../src/config/secrets.js'
import { check, seedTitle } from '../support/properties.js'

const reference = (inside: string): string => `\${${inside}}`

/** Returns the mistakes of a configuration; another setting is always invalid, so that there is one. */
function errorOf (environment: Environment, flags: Flags): string | undefined {
  try {
    loadConfig(environment, flags)
    return undefined
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return `${error.message.replaceAll(/^\S+:\d+:\d+: /gm, '')}\n${JSON.stringify(error.mistakes)}`
  }
}

/** Writes a configuration, given as text or tree, and returns its path. */
function written (dir: string, config: unknown): string {
  const file = join(dir, 'varve.yaml')
  writeFileSync(file, typeof config === 'string' ? config : stringify(config))
  return file
}

/** Returns all output of a command. */
function printed (environment: Environment, run: (io: Io) => unknown): string {
  let text = ''
  const add = (more: string | Uint8Array): void => {
    text += String(more)
  }
  run({
    environment,
    in: () => process.stdin,
    out: add,
    err: add,
    isTerminal: true,
    hasLostTerminal: () => false,
    program: { file: '', flags: [] },
    onSignal: () => {},
    onFault: () => {},
    bufferedBytes: () => 0,
    exit: () => {}
  })
  return text
}

// Secrets are letters and digits, as services issue them; wraps imitate how they get into wrong places.
const secret = fc.tuple(
  fc.constantFrom('q', 'Zk', 'X'),
  fc.integer({ min: 10, max: 99 }),
  fc.stringMatching(/^[A-Za-z0-9]{6,40}$/)
).map(parts => parts.join(''))
const wraps: ReadonlyArray<(secret: string) => string> = [
  text => text,
  text => `Bearer ${text}`,
  text => `redis://:${text}@h:1`,
  text => `redis://u:1/${text}@h`,
  text => `http://${text}:${text}@h`,
  text => `https://h/${text}?key=${text}#${text}`,
  text => `${text}@h:6379`,
  text => `${text}:`,
  text => `${text}\n${text}`,
  text => `${text}\0`,
  text => `"${text}`,
  text => `{${text}}`,
  text => `{{ ${text} }}`,
  text => `*${text}`,
  text => `&${text} ${text}`,
  text => `!${text} ${text}`,
  text => `!<${text}> 1`,
  text => `%${text}`,
  text => `\n%${text} 1\n`,
  text => `\n%YAML ${text}\n---\n`,
  text => `@${text}`,
  text => `|${text}`,
  text => `>-${text}\n ${text}`,
  text => `? {${text}: 1}\n: 2\n`,
  text => `"\\${text}"`,
  text => `<<: ${text}`,
  text => `--- ${text}\n`,
  text => `${text} # ${text}`,
  text => `-----BEGIN PRIVATE KEY-----\n${text}\n-----END PRIVATE KEY-----\n`,
  text => `${text}é`,
  text => `0x${text}`,
  text => `$${text}`,
  text => `$\{${text}-}`,
  text => `$\{file:/nowhere/x}${text}`,
  text => `$\{NO_SUCH}${text}`
]
const wrapped = fc.tuple(secret, fc.constantFrom(...wraps)).map(([text, wrap]) => ({ text, given: wrap(text) }))

const whole = configSchema.parse({
  upstreams: [{ name: 'a', url: 'http://h', headers: { authorization: 'x' } }, { name: 'b', url: 'http://i' }],
  clients: { required: true, keys: [{ name: 'c', key: 'k' }, { name: 'd', key: 'l' }] },
  cache: { redis: { sentinel: { name: 'm', hosts: ['h:1'] } } },
  trustProxy: ['127.0.0.1'],
  cors: { origins: ['https://a.example'] },
  tracing: { otlpUrl: 'http://h' }
})

function placesIn (value: unknown, path: readonly string[] = []): Array<readonly string[]> {
  return [
    path,
    ...(typeof value === 'object' && value !== null
      ? Object.entries(value).flatMap(([key, item]) => placesIn(item, [...path, key]))
      : [])
  ]
}

// Every key of the configuration, every map and list around one, and every place in a list.
const places = placesIn(whole).filter(path => path.length > 0)

function valueAt (tree: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((at, key) => (at as Record<string, unknown>)[key], tree)
}

// Each way puts the text at a place as a value, in a list, as a key, or next to the value that was there.
const ways: ReadonlyArray<(given: string, before: unknown) => unknown> = [
  given => given,
  given => [given],
  given => [[given]],
  given => ({ key: given }),
  given => ({ [given]: null }),
  given => ({ [given]: 1 }),
  given => ({ [given]: { [given]: given } }),
  (given, before) =>
    typeof before === 'object' && !Array.isArray(before)
      ? { ...before, [given]: given }
      : [{ name: given, key: given }, { name: given, key: given }, { url: given, headers: { [given]: given } }],
  (given, before) =>
    typeof before === 'object' && !Array.isArray(before)
      ? { ...before, [given]: reference('NO_SUCH') }
      : [{ name: [given], key: [given] }, { name: [given], key: [given] }]
]

function put (path: readonly string[], way: typeof ways[number], given: string): unknown {
  const tree = structuredClone(whole) as unknown
  const parent = valueAt(tree, path.slice(0, -1)) as Record<string, unknown>
  parent[path.at(-1) ?? ''] = way(given, parent[path.at(-1) ?? ''])
  return tree
}

t.test(`a secret at any place, in any form or by a reference, is in no mistake (${seedTitle})`, async t => {
  const dir = t.testdir({})
  const file = join(dir, 'secret')
  check(
    fc.property(
      wrapped,
      fc.constantFrom(...places),
      fc.oneof(fc.constantFrom(...ways), fc.constantFrom('S', `file:${file}`)),
      ({ text, given }, path, how) => {
        writeFileSync(file, given)
        const tree = typeof how === 'string' ? put(path, () => `a${reference(how)}`, '') : put(path, how, given)
        const mistake = errorOf({ S: given }, { config: written(dir, tree), 'log-level': '' })
        return mistake !== undefined && !mistake.includes(text)
      }
    ),
    110
  )
  t.pass()
})

t.test(`a secret that breaks the YAML of the file is in no mistake (${seedTitle})`, async t => {
  const dir = t.testdir({})
  const text = stringify(whole)
  let broken = 0
  check(
    fc.property(wrapped, fc.nat(text.length), ({ text: core, given }, at) => {
      const mistake = errorOf({}, { config: written(dir, text.slice(0, at) + given + text.slice(at)), 'log-level': '' })
      broken += /"path":""/.test(mistake ?? '') ? 1 : 0
      return mistake !== undefined && !mistake.includes(core)
    }),
    60
  )
  t.ok(broken > 15, 'many of them are invalid YAML')
})

t.test(`a secret in a wrong flag or variable is in no mistake (${seedTitle})`, async t => {
  const variables = ['VARVE_UPSTREAM', 'VARVE_LISTEN', 'VARVE_ADMIN', 'VARVE_REDIS', 'VARVE_WORKERS', 'VARVE_LOG_LEVEL']
  const flags = ['upstream', 'listen', 'admin', 'redis', 'workers', 'log-level'] as const
  check(
    fc.property(
      wrapped,
      fc.constantFrom(...variables),
      fc.constantFrom(...flags),
      ({ text, given }, variable, flag) => {
        const byVariable = errorOf({ [variable]: given }, {
          [variable === 'VARVE_WORKERS' ? 'log-level' : 'workers']: 'none'
        })
        const byFlag = errorOf({}, {
          [flag === 'workers' ? 'log-level' : 'workers']: 'none',
          [flag]: flag === 'upstream' ? [given, given] : given
        })
        return byVariable !== undefined && byFlag !== undefined && !`${byVariable}${byFlag}`.includes(text)
      }
    ),
    200
  )
  t.pass()
})

t.test(`a secret from any source is in no output of check, explain and banner (${seedTitle})`, async t => {
  const dir = t.testdir({})
  const inPlace = (text: string, name: string): unknown => ({
    ...whole,
    admin: { token: text },
    upstreams: [{ url: `https://h/${text}`, headers: { authorization: `Bearer ${text}`, [`x-${name}`]: text } }, {
      name: 'b',
      url: 'http://i'
    }],
    clients: { required: true, keys: [{ name: 'shown', key: text }] },
    cache: { redis: { sentinel: { name: 'm', hosts: ['h:1'], password: text }, password: text } },
    tracing: { otlpUrl: `https://h/${text}/v1/traces` }
  })
  check(
    fc.property(secret, fc.constantFrom<'plain' | 'variable' | 'file'>('plain', 'variable', 'file'), (text, how) => {
      writeFileSync(join(dir, 'secret'), `${text}\n`)
      const given = { plain: text, variable: reference('SECRET'), file: reference(`file:${join(dir, 'secret')}`) }[how]
      const environment = { SECRET: text }
      const config = written(dir, inPlace(given, text))
      const loaded = loadConfig(environment, { config })
      const shared = loadConfig({}, { redis: `redis://${text}:${text}@h:1/2`, upstream: [`http://h/${text}`] })
      const outputs = [
        printed(environment, io => checkCommand(config, {}, io)),
        printed(
          environment,
          io => explain({ method: 'GET', target: '/v1', data: undefined, accept: undefined, config }, io)
        ),
        bannerOf({ url: '', adminUrl: '' }, loaded),
        bannerOf({ url: '', adminUrl: '' }, shared),
        JSON.stringify(maskSecrets(shared.config))
      ]
      const isTaken = loaded.config.admin.token === text && loaded.config.clients.keys[0]?.key === text &&
        loaded.config.upstreams[0]?.headers['authorization'] === `Bearer ${text}`
      return isTaken && !outputs.join('').includes(text) && /token: "\*\*\*"/.test(outputs[0] ?? '') &&
        /\nclients:\n[^]*key: "\*\*\*"/.test(outputs[0] ?? '')
    }),
    50
  )
  t.pass()
})

t.test('a file reference is replaced by the file without its last line break, again on each load', async t => {
  const dir = t.testdir({
    one: 'first\n',
    windows: 'second\r\n',
    lines: 'a\nb\n\n',
    digits: '0012',
    nil: 'null',
    bom: '\ufeffthird\n',
    url: 'http://h',
    ref: 'a $' + '{file:/nowhere} b $' + '{HOME}'
  })
  symlinkSync(join(dir, 'one'), join(dir, 'link'))
  const from = (file: string): string => reference(`file:${join(dir, file)}`)
  const config = written(dir, {
    admin: { token: from('link') },
    upstreams: [{
      url: 'http://h',
      headers: { a: `Bearer ${from('windows')}, ${from('one')} ${reference('X')}`, b: from('bom'), c: from('ref') }
    }],
    cache: { redis: { url: 'redis://h', username: from('nil'), password: from('lines') } },
    clients: { keys: [{ name: 'n', key: from('digits') }] },
    tracing: { otlpUrl: reference(`file:${relative(process.cwd(), join(dir, 'url'))}`) }
  })
  const load = (): Config => loadConfig({ X: 'x' }, { config }).config
  t.match(load(), {
    admin: { token: 'first' },
    upstreams: [{ headers: { a: 'Bearer second, first x', b: 'third', c: 'a $' + '{file:/nowhere} b $' + '{HOME}' } }],
    cache: { redis: { username: 'null', password: 'a\nb\n' } },
    clients: { keys: [{ key: '0012' }] },
    tracing: { otlpUrl: 'http://h' }
  }, 'replaced text stays text and is not expanded again')
  writeFileSync(join(dir, 'one'), 'rotated')
  t.equal(load().admin.token, 'rotated')
})

t.test('an unusable referenced file is reported with key and path, without its content', async t => {
  const dir = t.testdir({ empty: '', break: '\n', nul: 's3cret\0', folder: {} })
  writeFileSync(join(dir, 'long'), 's3cret'.padEnd(65_537, 'x'))
  writeFileSync(join(dir, 'full'), 's3cret'.padEnd(65_536, 'x'))
  writeFileSync(join(dir, 'bytes'), Buffer.from([0x73, 0x33, 0x63, 0xff]))
  execFileSync('mkfifo', [join(dir, 'pipe')])
  const cases: ReadonlyArray<[string, string]> = [
    ['missing', 'cannot be read (ENOENT)'],
    ['empty/x', 'cannot be read (ENOTDIR)'],
    ['empty', 'is empty'],
    ['break', 'is empty'],
    ['nul', 'contains a NUL byte'],
    ['bytes', 'is not UTF-8 text'],
    ['long', 'is larger than 64 KiB'],
    ['folder', 'is not a regular file'],
    ['pipe', 'is not a regular file']
  ]
  for (const [file, fault] of cases) {
    const path = join(dir, file)
    t.equal(
      errorOf({}, { config: written(dir, { admin: { token: `a ${reference(`file:${path}`)}` } }) })?.split('\n')[0],
      `admin.token: the file "${path}" ${fault}`
    )
  }
  t.equal(
    loadConfig({}, { config: written(dir, { admin: { token: reference(`file:${join(dir, 'full')}`) } }) }).config.admin
      .token?.length,
    65_536
  )
  for (
    const [token, message] of [
      ['$' + '{file:/run/x', 'expected a } after $' + '{file:'],
      [reference('file:'), 'expected the path of a file after $' + '{file:'],
      [reference('file:a\0b'), 'the file "a\\u0000b" cannot be read (ERR_INVALID_ARG_VALUE)']
    ] as const
  ) t.equal(errorOf({}, { config: written(dir, { admin: { token } }) })?.split('\n')[0], `admin.token: ${message}`)
})

t.test('settings from files are masked anywhere, and settings overridden by flags do not matter', async t => {
  const dir = t.testdir({ user: 'u53r', url: 'http://127.0.0.1:1', address: '127.0.0.1:9' })
  mkdirSync(join(dir, 'dir'))
  const from = (file: string): string => reference(`file:${join(dir, file)}`)
  const config = written(dir, {
    listen: from('address'),
    upstreams: [{ url: from('url'), headers: { 'a.b': from('user') } }],
    cache: { redis: { url: 'redis://h', username: from('user') } }
  })
  const text = printed({}, io => checkCommand(config, {}, io))
  t.match(text, /^listen: "\*\*\*"\n/)
  t.match(text, /username: "\*\*\*"/)
  t.match(text, /upstreams:\n {2}- url: "\*\*\*"\n {4}headers:\n {6}"\*\*\* \(header 1\)": "\*\*\*"\n/)
  t.notMatch(
    printed({ VARVE_UPSTREAM: 'http://h:5', VARVE_LISTEN: 'h:6' }, io => checkCommand(config, {}, io)),
    /u53r|127\.0\.0\.1:1\b/
  )
})

t.test('YAML beyond texts, numbers, lists and maps is rejected, without text from the file', async t => {
  const dir = t.testdir({})
  const cases: ReadonlyArray<[string, RegExp]> = [
    ['admin: &a { token: *a }', /varve\.yaml: expected values that do not contain themselves$/],
    ['admin: &a [*a]', /do not contain themselves$/],
    ['a: &x s3cret\n*x : 2', /^With stringKeys, all keys must be strings$/],
    ['? { s3cret: 1 }\n: 2', /all keys must be strings$/],
    ['admin: !!set { s3cret }', /unknown tag; a value that begins with ! needs quotes$/],
    ['admin: !!omap [ s3cret: 1 ]', /unknown tag/],
    ['admin: { token: !!binary s3cret }', /unknown tag/],
    ['admin: { token: !s3cret x }', /unknown tag/],
    ['admin: { token: "\\us3cr et" }', /unknown escape between double quotes; write a backslash twice there$/],
    ['%s3cret x\n---\nworkers: 1', /^unknown directive; a value that begins with % needs quotes$/],
    [`${'x'.repeat(1100)}s3cret: 1`, /a key is longer than 1,024 characters$/],
    ['admin: { token: @s3cret }', /a value that begins with this character needs quotes$/],
    ['admin: |s3cret', /Block scalar header includes extra characters$/],
    ['admin:\n  token: "s3cret\n', /Missing closing "quote$/],
    ['admin: { token: *s3cret }', /Unresolved alias/],
    ['admin: { token: s3cret, token: s3cret }', /Map keys must be unique$/]
  ]
  for (const [text, expected] of cases) {
    const mistake = errorOf({}, { config: written(dir, text) }) ?? ''
    t.match(mistake.split('\n')[0], expected, text)
    t.notMatch(mistake, /s3c/, text)
  }
})

t.test('a mistake in the syntax shows its line, with names of keys and nothing else of its text', async t => {
  const dir = t.testdir({})
  for (
    const [text, shown] of [
      ['upstreams:\n  - url: http://s3cret\n   name: s3cret\n', '       name: ...\n    ^'],
      ['admin: { token: level s3cret: }\n', '    admin: { token: level ...: }\n                    ^'],
      ['cache:\n\tmemory: { maxMb: 1 }\n', '    \tmemory: { maxMb: ... }\n    ^']
    ] as const
  ) {
    const mistake = errorOf({}, { config: written(dir, text) }) ?? ''
    t.ok(mistake.includes(`\n${shown}`), mistake)
  }
})
