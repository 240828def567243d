import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname } from 'node:path'
import { pathToFileURL } from 'node:url'
import { filesIn } from './compile.js'
import { at, textOf } from './ground.js'

const require = createRequire(import.meta.url)
const folder = '.tap/js'
const record = `${folder}/printed.json`
const options = {
  module: 'esnext',
  target: 'es2023',
  inlineSourceMap: true,
  isolatedModules: true
}

/** Returns the path of the JavaScript generated from a TypeScript file. */
export const printedAt = file => at(folder, file.replace(/\.ts$/, '.js'))

/**
 * Transpiles all sources and tests once: a compiler or loader hook in each test process would cost more than most
 * tests.
 */
export function printAll () {
  const { version } = require('typescript/package.json')
  const earlier = JSON.parse(textOf(record) ?? '{}')
  const now = {}
  for (const file of ['src', 'sandbox', 'test'].flatMap(filesIn).filter(file => file.endsWith('.ts'))) {
    const text = readFileSync(at(file), 'utf8')
    now[file] = createHash('sha1').update([version, at(file), JSON.stringify(options), text].join('\0')).digest('hex')
    if (earlier[file] !== now[file] || !existsSync(printedAt(file))) print(file, text)
  }
  for (const file of Object.keys(earlier)) if (now[file] === undefined) rmSync(printedAt(file), { force: true })
  write(at(folder, 'package.json'), JSON.stringify({ type: 'module', imports: { '#sandbox': './sandbox/sandbox.js' } }))
  write(at(record), JSON.stringify(now))
}

function print (file, text) {
  const ts = require('typescript')
  // Replaces `import.meta` with the source's location, so that stack traces, coverage and relative paths refer to the
  // source.
  const { href: url } = pathToFileURL(at(file))
  const meta = { url, filename: at(file), dirname: dirname(at(file)) }
  const { outputText } = ts.transpileModule(text, {
    compilerOptions: {
      ...options,
      module: ts.ModuleKind.ESNext,
      target: ts.ScriptTarget.ES2023,
      sourceRoot: dirname(url)
    },
    fileName: at(file)
  })
  mkdirSync(dirname(printedAt(file)), { recursive: true })
  write(
    printedAt(file),
    outputText.replace(/\bimport\.meta\.(url|filename|dirname)\b/g, (_, name) => JSON.stringify(meta[name]))
  )
}

// Renames the complete file into place, so that a concurrent process never reads half of it.
function write (path, text) {
  const mine = `${path}.${process.pid}`
  writeFileSync(mine, text)
  renameSync(mine, path)
}
