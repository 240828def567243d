import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { pathToFileURL } from 'node:url'
import { compile, emit, filesIn } from './compile.js'
import { at, digestOf, root, textOf } from './ground.js'

const folder = '.tap/js'
const emitted = '.tap/emitted'
const stamp = `${folder}/stamp`
const folders = ['src', 'sandbox', 'test']
const makers = ['scripts/compile.js', 'scripts/compile-tests.js', 'package-lock.json']

/** Returns the path of the JavaScript that the tests load for a TypeScript file. */
export const compiledAt = file => at(folder, file.replace(/\.ts$/, '.js'))

/**
 * Compiles the program and all tests unless they are unchanged; returns the error, if any. A compiler or loader hook in
 * each test process would cost more than most tests.
 */
export async function compileTests () {
  const fault = await compile()
  if (fault !== undefined) return fault
  const files = folders.flatMap(filesIn).filter(file => file.endsWith('.ts'))
  const wanted = `${root} ${digestOf([...files, ...makers])}`
  if (textOf(stamp) === wanted) return
  const testFault = await emit('test', emitted)
  if (testFault !== undefined) return testFault
  for (const file of files) place(file)
  write(at(folder, 'package.json'), JSON.stringify({ type: 'module', imports: { '#sandbox': './sandbox/sandbox.js' } }))
  const expected = new Set(files.map(compiledAt))
  for (const file of folders.flatMap(name => filesIn(`${folder}/${name}`))) {
    if (!expected.has(at(file))) rmSync(at(file))
  }
  rmSync(at(emitted), { recursive: true, force: true })
  write(at(stamp), wanted)
}

/** Compiles one changed file of `src` for the program and the tests; returns the error, if any. */
export async function compileChanged (file) {
  const fault = await emit('src', 'dist', [file])
  if (fault === undefined) place(file)
  return fault
}

// Replaces `import.meta` with the location of the source, so that traces, coverage and relative paths refer to it.
function place (file) {
  const { href: url } = pathToFileURL(at(file))
  const meta = { url, filename: at(file), dirname: dirname(at(file)) }
  const output = at(...outputOf(file))
  const map = JSON.parse(readFileSync(`${output}.map`, 'utf8'))
  const inlined = Buffer.from(JSON.stringify({ ...map, sourceRoot: `${dirname(url)}/`, sources: [basename(file)] }))
  mkdirSync(dirname(compiledAt(file)), { recursive: true })
  write(
    compiledAt(file),
    readFileSync(output, 'utf8').replace(/^\/\/# sourceMappingURL=.*$/m, '')
      .replace(/\bimport\.meta\.(url|filename|dirname)\b/g, (_, name) => JSON.stringify(meta[name])) +
      `//# sourceMappingURL=data:application/json;base64,${inlined.toString('base64')}\n`
  )
}

function outputOf (file) {
  const compiled = file.replace(/\.ts$/, '.js')
  return compiled.startsWith('test/') ? [emitted, compiled.slice(5)] : ['dist', compiled.replace(/^src\//, '')]
}

// Renames the complete file into place, so that a concurrent process never reads half of it.
function write (path, text) {
  const mine = `${path}.${process.pid}`
  writeFileSync(mine, text)
  renameSync(mine, path)
}
