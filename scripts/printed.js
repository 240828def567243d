import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { filesIn } from './compile.js'
import { at } from './ground.js'

const require = createRequire(import.meta.url)
const { version } = require('typescript/package.json')
const folder = at('node_modules/.cache/varve')
const options = {
  module: 'esnext',
  target: 'es2023',
  inlineSourceMap: true,
  inlineSources: true,
  isolatedModules: true,
  verbatimModuleSyntax: true
}

/** The JavaScript of a TypeScript file, printed once for each text. */
export function printedOf (file) {
  const text = readFileSync(file, 'utf8')
  const kept = `${folder}/${
    createHash('sha1').update([version, file, JSON.stringify(options), text].join('\0')).digest('hex')
  }.js`
  if (!existsSync(kept)) print(file, text, kept)
  return kept
}

/** Prints whatever tests may load, so that no process of theirs has to load the compiler. */
export function printAll () {
  for (const folder of ['src', 'sandbox', 'test']) {
    for (const file of filesIn(folder)) if (file.endsWith('.ts')) printedOf(at(file))
  }
}

function print (file, text, kept) {
  const ts = require('typescript')
  const { outputText } = ts.transpileModule(text, {
    compilerOptions: { ...options, module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2023 },
    fileName: file
  })
  mkdirSync(folder, { recursive: true })
  // Another process may be at the same file, and nobody reads half of one.
  const mine = `${kept}.${process.pid}`
  writeFileSync(mine, outputText)
  renameSync(mine, kept)
}
