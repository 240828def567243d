import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { at } from './ground.js'

const require = createRequire(import.meta.url)
const { version } = require('typescript/package.json')
const folder = at('node_modules/.cache/varve')
const options = { module: 'esnext', target: 'es2023', inlineSourceMap: true, inlineSources: true, isolatedModules: true, verbatimModuleSyntax: true }

/** What is imported as .js is the .ts beside it, where there is one. */
export async function resolve (specifier, context, next) {
  if (/^\.{0,2}\/.*\.js$/.test(specifier) && context.parentURL?.startsWith('file:') === true) {
    const url = new URL(specifier.replace(/\.js$/, '.ts'), context.parentURL)
    if (existsSync(url)) return { url: url.href, format: 'module', shortCircuit: true }
  }
  return await next(specifier, context)
}

/** The JavaScript of a .ts file, printed once for each text. */
export async function load (url, context, next) {
  if (!url.startsWith('file:') || !url.endsWith('.ts')) return await next(url, context)
  const file = fileURLToPath(url)
  const text = readFileSync(file, 'utf8')
  const kept = `${folder}/${createHash('sha1').update([version, file, JSON.stringify(options), text].join('\0')).digest('hex')}.js`
  if (!existsSync(kept)) print(file, text, kept)
  return { format: 'module', source: readFileSync(kept, 'utf8'), shortCircuit: true }
}

function print (file, text, kept) {
  const ts = require('typescript')
  const { outputText } = ts.transpileModule(text, { compilerOptions: { ...options, module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2023 }, fileName: file })
  mkdirSync(folder, { recursive: true })
  // Another process may be at the same file, and nobody reads half of one.
  const mine = `${kept}.${process.pid}`
  writeFileSync(mine, outputText)
  renameSync(mine, kept)
}
