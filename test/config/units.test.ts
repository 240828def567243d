import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type Environment, loadConfig } from '../../src/config/load.js'
import { type Config } from '../../src/config/schema.js'

function load (t: Test, text: string, environment: Environment = {}): Config {
  const file = join(t.testdir(), 'v.yaml')
  writeFileSync(file, text)
  return loadConfig(environment, { config: file }).config
}

t.test('durations and sizes take a unit, which overrides the suffix of their key', async t => {
  const { upstreams, head, waitForVersion, latest, pages, cache, limits } = load(
    t,
    `
upstreams: [{ url: "http://h", timeoutMs: 5s, maxLagSeconds: 2m, headers: { x-ms: 5s, timeoutMs: 5s } }]
head: { pollMs: 0.5s }
waitForVersion: { ms: 1 s }
latest: { stateMs: 250ms, infoMs: 1m, gasMs: 300 }
pages: { eventsTtlSeconds: 1d }
cache: { memory: { maxMb: 2GB }, maxEntryMb: 16MiB, redis: { ttlSeconds: 12h, timeoutMs: "\${TIMEOUT}" } }
limits: { bodyKb: 2MB, headerKb: 16384B }
`,
    { TIMEOUT: '80ms' }
  )
  t.match(upstreams, [{ timeoutMs: 5000, maxLagSeconds: 120, headers: { 'x-ms': '5s', timeoutMs: '5s' } }])
  t.match({ head, waitForVersion, latest, pages, cache, limits }, {
    head: { pollMs: 500 },
    waitForVersion: { ms: 1000 },
    latest: { stateMs: 250, infoMs: 60_000, gasMs: 300 },
    pages: { eventsTtlSeconds: 86_400 },
    cache: { memory: { maxMb: 2048 }, maxEntryMb: 16, redis: { ttlSeconds: 43_200, timeoutMs: 80 } },
    limits: { bodyKb: 2048, headerKb: 16 }
  })
})

t.test('a wrong unit, a fraction and a unit on another key are mistakes with an example', async t => {
  const cases: [string, RegExp][] = [
    [
      'latest: { stateMs: 5 parsecs }',
      /:1:20: latest\.stateMs: expected a .*, or a text with a unit, such as 250ms, 5s/
    ],
    ['latest: { stateMs: 5MB }', /or a text with a unit/],
    ['latest: { stateMs: 5S }', /or a text with a unit/],
    ['pages: { eventsTtlSeconds: 1500ms }', /expected a whole number.*, got 1\.5/],
    ['cache: { memory: { maxMb: 1.5MB } }', /expected a whole number.*256MB or 2GB, got 1\.5; for example maxMb: 256$/],
    ['latest: { stateMs: 5x }', /250ms, 5s or 2m, got "5x"; for example stateMs: 0$/],
    ['latest: { stateMs: 12345678x }', /, got a text;/],
    ['workers: 5s', /expected a number, got "5s"; for example workers: 1$/],
    ['latest: { stateMs: 2h }', /expected at most 3600000/]
  ]
  for (const [text, message] of cases) {
    t.throws(() => load(t, text), { message }, text)
  }
})

t.test('an unknown key is answered with the one that it may mean, here or elsewhere', async t => {
  const cases: [string, RegExp][] = [
    ['workrs: 1', /:1:1: workrs: unknown key; did you mean workers\?$/],
    ['maxMB: 1', /:1:1: maxMB: unknown key; did you mean cache\.memory\.maxMb\?$/],
    ['cache: { memory: { maxMB: 1 } }', /; did you mean maxMb\?$/],
    ['maxMb: 1', /; did you mean cache\.memory\.maxMb\?$/],
    ['timeoutMs: 1', /; did you mean upstreams\[\]\.timeoutMs or cache\.redis\.timeoutMs\?$/],
    ['upstreams: [{ url: "http://h", timoutMs: 1 }]', /:1:32: upstreams\.0\.timoutMs: .*; did you mean timeoutMs\?$/],
    ['colour: red', /: unknown key; expected one of listen, .* downstream$/],
    ['mode: observe', /:1:1: mode: removed: delete the line; audit\.share .*latest reads$/]
  ]
  for (const [text, message] of cases) t.throws(() => load(t, text), { message }, text)
})

t.test('a missing key is required, a URL lacks its scheme, and the name of a chain has a number', async t => {
  const cases: [string, RegExp][] = [
    ['upstreams: [{ name: a }]', /:1:13: upstreams\.0\.url: is required: an http or https URL$/],
    ['clients: { keys: [{ name: a }] }', /: clients\.keys\.0\.key: is required: printable ASCII without blanks$/],
    ['upstreams: [{ url: "localhost:8081" }]', /: expected an http or https URL: add http:\/\/ or https:\/\/ in front/],
    ['upstreams: [{ url: "user:pass@h" }]', /without credentials/],
    [
      'chainId: mainnet',
      /:1:10: chainId: expected a number, got "mainnet"; for example chainId: 1 for mainnet, 2 for testnet$/
    ],
    ['chainId: 256', /expected at most 255, got 256/]
  ]
  for (const [text, message] of cases) t.throws(() => load(t, text), { message }, text)
})

t.test('a mistake has the place of its value, also behind an alias and in a list', async t => {
  const cases: [string, RegExp][] = [
    ['workers: 1\nfollow: { mode: observ }\n', /:2:17: follow\.mode: .*, got "observ"; for example mode: off$/],
    ['upstreams:\n  - url: http://h\n  - name: b\n', /:3:5: upstreams\.1\.url: /],
    ['upstreams: [{ url: "http://h", timeoutMs: &t 0 }]\nlatest: { stateMs: *t }', /:1:46: upstreams\.0\.timeoutMs: /],
    ['head:\n', /:1:1: head: expected a map of keys, got null/],
    ['cache: &c { maxEntryMb: 0 }\n', /:1:25: cache\.maxEntryMb: /]
  ]
  for (const [text, message] of cases) t.throws(() => load(t, text), { message }, text)
})
