import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t, { type Test } from 'tap'
import { runProgram } from './support/run-program.js'

const root = join(import.meta.dirname, '..')
const wrong = 'const a = "1";\nexport function b (c: string) { return a + c }\n'
const right = 'const a = \'1\'\nexport function b (c: string) {\n  return a + c\n}\n'

interface Ground {
  readonly digestOf: (files: readonly string[]) => string
}

/** Makes a checkout with the scripts, the formatter and one source file. */
async function checkout (t: Test, text: string): Promise<string> {
  const folder = t.testdir({
    src: { 'a.ts': text },
    site: { '.vitepress': { 'config.mjs': 'export default {}\n' } },
    'eslint.config.js': 'export default []\n'
  })
  for (const name of ['scripts', 'dprint.json', 'package.json', 'package-lock.json']) {
    cpSync(join(root, name), join(folder, name), { recursive: true })
  }
  mkdirSync(join(folder, 'node_modules'))
  symlinkSync(join(root, 'node_modules/@dprint'), join(folder, 'node_modules/@dprint'))
  // Records the packages as installed, so that the script does not install them here.
  const { digestOf } = await import(pathToFileURL(join(folder, 'scripts/ground.js')).href) as Ground
  writeFileSync(join(folder, 'node_modules/.varve-installed'), digestOf(['package-lock.json']))
  return folder
}

async function format (folder: string, ...args: string[]): Promise<{ code: number | null, stderr: string }> {
  return await runProgram(process.execPath, ['scripts/format.js', ...args], { cwd: folder })
}

t.test('the layout check names each file that npm run format would change, and changes none', async t => {
  const folder = await checkout(t, wrong)
  const { code, stderr } = await format(folder, '--check')
  t.equal(code, 1)
  t.match(stderr, 'not formatted: src/a.ts; npm run format writes them')
  t.equal(readFileSync(join(folder, 'src/a.ts'), 'utf8'), wrong)
})

t.test('a formatted file passes the check until it is changed', async t => {
  const folder = await checkout(t, wrong)
  t.equal((await format(folder)).code, 0)
  t.equal(readFileSync(join(folder, 'src/a.ts'), 'utf8'), right)
  t.equal((await format(folder, '--check')).code, 0)
  t.equal((await format(folder, '--check')).code, 0, 'also by the record of formatted files')
  writeFileSync(join(folder, 'src/a.ts'), wrong)
  t.equal((await format(folder, '--check')).code, 1)
})
