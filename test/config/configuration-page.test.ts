import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { reloadedKeys } from '../../src/config/restart-keys.js'
import { configSchema } from '../../src/config/schema.js'
import { configJsonSchema, configurationPage, keysOnPage, meaningsIn } from '../support/configuration-page.js'

const file = join(import.meta.dirname, '../../docs/configuration.md')
const printedSection =
  /(?<=<!-- printed from src\/config\/schema\.ts and config\/varve\.yaml: begins -->\n)[^]*(?=<!-- ends -->)/

t.test('docs/configuration.md matches the schema and config/varve.yaml (RENEW=1 prints it again)', async t => {
  if (process.env['RENEW'] === '1') {
    writeFileSync(
      file,
      readFileSync(file, 'utf8').replace(printedSection, () => configurationPage())
    )
  }
  t.equal(printedSection.exec(readFileSync(file, 'utf8'))?.[0], configurationPage())
})

t.test('config/varve.schema.json matches the schema and config/varve.yaml (RENEW=1 prints it)', async t => {
  const config = join(import.meta.dirname, '../../config')
  const meanings = meaningsIn(readFileSync(join(config, 'varve.yaml'), 'utf8'))
  const printed = `${JSON.stringify(configJsonSchema(meanings), null, 2)}\n`
  if (process.env['RENEW'] === '1') writeFileSync(join(config, 'varve.schema.json'), printed)
  t.equal(readFileSync(join(config, 'varve.schema.json'), 'utf8'), printed)
})

t.test('the page has every key with its meaning', async t => {
  const keys = keysOnPage()
  const leaves = (value: unknown, path: string): string[] =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.entries(value).flatMap(([key, item]) => leaves(item, path === '' ? key : `${path}.${key}`))
      : [path]
  for (const key of leaves(configSchema.parse({}), '')) t.ok(keys.includes(key), key)
  const meanings = meaningsIn(readFileSync(join(import.meta.dirname, '../../config/varve.yaml'), 'utf8'))
  // A comment on a list of small maps describes all of their keys.
  for (const key of keys) {
    t.ok(meanings.has(key) || (key.startsWith('clients.keys[].') && meanings.has('clients.keys')), key)
  }
  for (const key of meanings.keys()) {
    t.ok(keys.some(name => name === key || name.startsWith(`${key}.`)), `${key} is not a key`)
  }
})

t.test('the page lists the keys that a reload applies', async t => {
  const page = configurationPage()
  const before = configSchema.parse({})
  for (
    const [key, change] of [
      ['listen', { listen: '127.0.0.1:1' }],
      ['cache.memory.maxMb', { cache: { memory: { maxMb: 1 } } }],
      ['log.access', { log: { access: true } }],
      ['latest.stateMs', { latest: { stateMs: 5 } }]
    ] as const
  ) {
    const after = configSchema.parse(change)
    const { changed, needsRestart } = reloadedKeys(before, before, after)
    t.same(changed, [key])
    const row = page.split('\n').find(line => line.startsWith(`| \`${key}\` |`))
    t.equal(row?.endsWith('; *restart* |'), needsRestart.length > 0, key)
  }
})
