import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv2020 } from 'ajv/dist/2020.js'
import t from 'tap'
import { parse } from 'yaml'
import { runCommand } from '../cli/command.js'
import { configurationPage, keysOnPage } from '../support/configuration-page.js'

const folder = join(import.meta.dirname, '../../config')
const file = join(folder, 'varve.schema.json')
const textOf = (name: string): string => readFileSync(join(folder, name), 'utf8')
const examples = readdirSync(folder).filter(name => name.endsWith('.yaml'))

t.test('varve schema prints config/varve.schema.json', async t => {
  t.same(await runCommand(t, ['schema']), { code: 0, out: readFileSync(file, 'utf8'), err: '' })
})

t.test('every key has its description, the same text as in docs/configuration.md', async t => {
  interface Shape {
    description?: string
    properties?: Record<string, Shape>
    items?: Shape
  }
  const schema = JSON.parse(readFileSync(file, 'utf8')) as Shape
  const page = configurationPage()
  for (const key of keysOnPage()) {
    const shape = key.split('.').reduce<Shape | undefined>((at, name) => {
      const next = at?.properties?.[name.replace(/\[\]$/, '')]
      return name.endsWith('[]') ? next?.items : next
    }, schema)
    t.ok(shape?.description, key)
    t.ok(page.includes((shape?.description ?? '').replaceAll('|', '\\|').replaceAll('<', '&lt;')), key)
  }
})

t.test('every example names the schema in its first line, and fits it', async t => {
  const validate = new Ajv2020({ strict: false }).compile(JSON.parse(readFileSync(file, 'utf8')))
  t.ok(examples.length > 5)
  for (const name of examples) {
    t.match(textOf(name), /^# yaml-language-server: \$schema=\.\/varve\.schema\.json\n/, name)
    t.ok(validate(parse(textOf(name))), `${name}: ${JSON.stringify(validate.errors)}`)
  }
  const isValid = (text: string): boolean => validate(parse(text))
  const reference = '"$' + '{NAME}"'
  t.ok(isValid(`latest: { stateMs: 250ms }\nlimits: { inFlightMb: 2GB }\nworkers: ${reference}`))
  t.ok(isValid(`cache: { redis: { url: ${reference}, tls: ${reference} } }\nlog: { level: ${reference} }`))
  t.ok(isValid('upstreams: [{ url: http://h, timeoutMs: 5s, headers: { x: y } }]'))
  for (
    const text of [
      'colour: red',
      'workers: 0',
      'workers: 5s',
      'mode: none',
      'latest: { stateMs: 2GB }',
      'upstreams: [{}]'
    ]
  ) {
    t.notOk(isValid(text), text)
  }
})
