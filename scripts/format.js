import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { filesIn } from './compile.js'
import { at, giveUpOn, requireNode, say, textOf } from './ground.js'
import { install } from './install.js'

const folders = ['bench', 'deploy', 'grafana/source', 'sandbox', 'scripts', 'src', 'test']
const single = ['eslint.config.js', 'site/.vitepress/config.mjs']
const cache = 'node_modules/.cache/varve'
// A few constructs change again in a second pass.
const mostPasses = 5

requireNode()
giveUpOn(await install())
giveUpOn(process.argv.includes('--check') ? check() : write())

function write () {
  const changed = unformatted()
  for (const { file, formatted } of changed) writeFileSync(at(file), formatted)
  say(changed.length === 0 ? 'all files are formatted' : `formatted ${changed.map(({ file }) => file).join(', ')}`)
}

function check () {
  const files = unformatted().map(({ file }) => file)
  if (files.length > 0) return `not formatted: ${files.join(', ')}; npm run format writes them`
}

/**
 * Returns unformatted files with their formatted text; digests of formatted files are cached, since formatting is slow.
 */
function unformatted () {
  const require = createRequire(import.meta.url)
  const { typescript, ...layout } = JSON.parse(textOf('dprint.json'))
  const versions = ['formatter', 'typescript'].map(name => textOf(`node_modules/@dprint/${name}/package.json`))
  const maker = JSON.stringify([typescript, layout, versions, mostPasses])
  const known = new Set(textOf(`${cache}/formatted`)?.split('\n'))
  const right = []
  const wrong = []
  let formatter
  for (const file of [...single, ...folders.flatMap(filesIn)].filter(name => /\.m?[jt]s$/.test(name))) {
    const text = readFileSync(at(file), 'utf8')
    const digest = createHash('sha1').update([maker, file, text].join('\0')).digest('hex')
    if (!known.has(digest)) formatter ??= formatterOf(require, layout, typescript)
    const formatted = known.has(digest) ? text : settled(formatter, file, text)
    if (formatted === text) right.push(digest)
    else wrong.push({ file, formatted })
  }
  mkdirSync(at(cache), { recursive: true })
  writeFileSync(at(`${cache}/formatted`), right.join('\n'))
  return wrong
}

function formatterOf (require, layout, typescript) {
  const { createFromBuffer } = require('@dprint/formatter')
  const formatter = createFromBuffer(readFileSync(require('@dprint/typescript').getPath()))
  formatter.setConfig(layout, typescript)
  const [fault] = formatter.getConfigDiagnostics()
  if (fault !== undefined) throw new Error(`dprint.json: ${fault.propertyName}: ${fault.message}`)
  return formatter
}

function settled (formatter, file, text) {
  let last = text
  for (let pass = 0; pass < mostPasses; pass++) {
    const next = formatter.formatText({ filePath: file, fileText: last })
    if (next === last) return next
    last = next
  }
  throw new Error(`${file} changes with every pass of the formatter: rewrite the construct`)
}
