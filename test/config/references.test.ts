import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type Environment, loadConfig } from '../../src/config/load.js'
import { type Config } from '../../src/config/schema.js'
import { runCommand } from '../cli/command.js'

const braced = (inside: string): string => `\${${inside}}`
const stray = `expected ${braced('NAME')}, ${braced('file:PATH')}, or $$ for a literal dollar; $NAME and ${
  braced('NAME:-x')
} are not replaced`

/** Writes a configuration whose only upstream has this authorization header. */
function withHeader (t: Test, text: string): string {
  const config = join(t.testdir({}), 'v.yaml')
  writeFileSync(config, `upstreams:\n  - url: http://127.0.0.1:9\n    headers:\n      authorization: ${text}\n`)
  return config
}

/** Returns the mistakes that check prints. */
async function checked (t: Test, config: string, environment: Environment = {}): Promise<string> {
  const { code, out, err } = await runCommand(t, ['check', config], environment)
  t.same([code, out], [2, ''])
  const serving = await runCommand(
    t,
    ['serve', '--config', config, '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0'],
    environment
  )
  t.same(serving, { code, out, err }, 'serve rejects it alike')
  t.match(err, `varve: the configuration in ${config} has a mistake:\n`)
  const place = `  ${config}:`
  return err.split('\n').slice(1, -1).map(line =>
    line.startsWith(place) ? `  ${line.slice(place.length).replace(/^\d+:\d+: /, '')}` : line
  ).join('\n')
}

t.test('$NAME and $' + '{NAME:-x} never reach an upstream: each is a mistake that repeats no value', async t => {
  const environment = { NODE_KEY: 's3cret' }
  for (
    const text of [
      'Bearer $NODE_KEY',
      `Bearer ${braced('NODE_KEY:-none')}`,
      `"Bearer ${braced('NODE_KEY')} $s3cret$"`,
      'pa$$$s3cret',
      '5$',
      `Bearer ${braced('')}`,
      `Bearer ${braced(' NODE_KEY')}`,
      'Bearer $' + '{NODE_KEY',
      'Bearer $(NODE_KEY)'
    ]
  ) {
    const output = await checked(t, withHeader(t, text), environment)
    t.equal(output, `  upstreams.0.headers.authorization: ${stray}`, text)
    t.notMatch(output, /s3cret/)
  }
})

t.test('$$ is a literal dollar, also before a brace', async t => {
  const load = (text: string): Config => loadConfig({ K: 'k$$' }, { config: withHeader(t, text) }).config
  for (
    const [text, value] of [['Bearer pa$$word', 'Bearer pa$word'], ['x$$' + '{K}', 'x$' + '{K}'], [
      `$$$$${braced('K')}$$`,
      '$$k$$$'
    ]] as const
  ) {
    t.equal(load(text).upstreams[0]?.headers['authorization'], value, text)
  }
})

t.test('an empty secret is rejected, from the environment, a file, or the text itself', async t => {
  const dir = mkdtempSync(join(tmpdir(), 'varve-references-'))
  t.teardown(() => rmSync(dir, { recursive: true }))
  writeFileSync(join(dir, 'blank'), ' \n\n')
  const name =
    '  upstreams.0.headers.authorization: the environment variable NODE_KEY is empty; expected a secret: set ' +
    'the variable, or remove the key'
  for (const value of ['', ' ', '\t']) {
    t.equal(await checked(t, withHeader(t, `Bearer ${braced('NODE_KEY')}`), { NODE_KEY: value }), name)
  }
  t.equal(
    await checked(t, withHeader(t, `Bearer ${braced(`file:${join(dir, 'blank')}`)}`)),
    `  upstreams.0.headers.authorization: the file ${JSON.stringify(join(dir, 'blank'))} is empty`
  )
  const empty = '  upstreams.0.headers.authorization: expected a value that is not empty: set it, or remove the header'
  for (const text of ['""', '" "', '"Bearer "', 'bearer', '"Basic  "']) {
    t.equal(await checked(t, withHeader(t, text)), empty, text)
  }
  const text = '  admin.token: expected a text that is not empty: set it, or remove the key'
  const config = join(dir, 'v.yaml')
  for (const token of ['""', '"  "']) {
    writeFileSync(config, `upstreams: [{ url: "http://127.0.0.1:9" }]\nadmin: { token: ${token} }\n`)
    t.equal(await checked(t, config), text)
  }
  for (
    const key of [
      `url: "https://h/${braced('NODE_KEY')}"`,
      `url: "http://h", headers: { x-key: "${braced('NODE_KEY')}" }`
    ]
  ) {
    writeFileSync(config, `upstreams: [{ ${key} }]\n`)
    t.match(await checked(t, config, { NODE_KEY: '' }), 'the environment variable NODE_KEY is empty')
  }
})

t.test('an unquoted reference in a YAML map or list is one mistake with its place and a fix', async t => {
  const message = `a value with ${braced('NAME')} or ${
    braced('file:PATH')
  } in it needs quotes within { } and [ ], such as { authorization: "Bearer ${braced('NAME')}" }`
  const cases: Array<[string, string]> = [
    [
      `upstreams:\n  - url: http://h\n    headers: { authorization: Bearer ${braced('X')} }\nworkers: 1\n`,
      '3:39'
    ],
    [`upstreams: [{ url: http://h/${braced('X')}, headers: { a: b } }]\n`, '1:30'],
    [`admin: { token: ${braced('file:/run/x')} }\n`, '1:18'],
    [`trustProxy: [${braced('X')}]\n`, '1:15'],
    [`admin: {\n  token: ${braced('X')}\n}\n`, '2:11']
  ]
  for (const [text, place] of cases) {
    const config = join(t.testdir({ 'v.yaml': text }), 'v.yaml')
    t.same(await runCommand(t, ['check', config], { X: 'x' }), {
      code: 2,
      out: '',
      err: `varve: the configuration in ${config} has a mistake:\n  ${config}:${place}: ${message}\n`
    }, text)
  }
})
