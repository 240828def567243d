import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname } from 'node:path'
import { pathToFileURL } from 'node:url'
import { filesIn } from './compile.js'
import { at, textOf } from './ground.js'

const require = createRequire(import.meta.url)
const folder = '.tap/js'
const record = `${folder}/printed.json`
const options = { module: 'esnext', target: 'es2023', isolatedModules: true }

/** Returns the path of the JavaScript generated from a TypeScript file. */
export const printedAt = file => at(folder, file.replace(/\.ts$/, '.js'))

/**
 * Transpiles all tests once, and takes sources from the build: a compiler or loader hook in each test process would
 * cost more than most tests.
 */
export function printAll () {
  const { version } = require('typescript/package.json')
  const maker = [version, JSON.stringify(options), textOf('scripts/emit.js')].join('\0')
  const earlier = JSON.parse(textOf(record) ?? '{}')
  const now = {}
  for (const file of ['src', 'sandbox', 'test'].flatMap(filesIn).filter(file => file.endsWith('.ts'))) {
    const text = readFileSync(at(file), 'utf8')
    now[file] = createHash('sha1').update([maker, at(file), text].join('\0')).digest('hex')
    if (earlier[file] !== now[file] || !existsSync(printedAt(file))) print(file, text)
  }
  for (const file of Object.keys(earlier)) if (now[file] === undefined) rmSync(printedAt(file), { force: true })
  write(at(folder, 'package.json'), JSON.stringify({ type: 'module', imports: { '#sandbox': './sandbox/sandbox.js' } }))
  write(at(record), JSON.stringify(now))
}

// Replaces `import.meta` with the location of the source, so that traces, coverage and relative paths refer to it.
function print (file, text) {
  const { href: url } = pathToFileURL(at(file))
  const meta = { url, filename: at(file), dirname: dirname(at(file)) }
  const { code, map } = file.startsWith('test/') ? transpiled(file, text) : compiled(file)
  const inlined = Buffer.from(JSON.stringify({ ...map, sourceRoot: dirname(url), sources: [basename(file)] }))
  mkdirSync(dirname(printedAt(file)), { recursive: true })
  write(
    printedAt(file),
    code.replace(/^\/\/# sourceMappingURL=.*$/m, '')
      .replace(/\bimport\.meta\.(url|filename|dirname)\b/g, (_, name) => JSON.stringify(meta[name])) +
      `//# sourceMappingURL=data:application/json;base64,${inlined.toString('base64')}\n`
  )
}

function transpiled (file, text) {
  const ts = require('typescript')
  const { outputText: code, sourceMapText: map } = ts.transpileModule(text, {
    compilerOptions: { ...options, module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2023, sourceMap: true },
    fileName: at(file)
  })
  return { code, map: JSON.parse(map) }
}

function compiled (file) {
  const path = at('dist', file.replace(/^src\//, '').replace(/\.ts$/, '.js'))
  return { code: readFileSync(path, 'utf8'), map: JSON.parse(readFileSync(`${path}.map`, 'utf8')) }
}

// Renames the complete file into place, so that a concurrent process never reads half of it.
function write (path, text) {
  const mine = `${path}.${process.pid}`
  writeFileSync(mine, text)
  renameSync(mine, path)
}
