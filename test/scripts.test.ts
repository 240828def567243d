import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t, { type Test } from 'tap'

const root = join(import.meta.dirname, '..')

interface Count {
  readonly passed: number
}
interface Recorded {
  readonly treeDigest: () => string | undefined
  readonly forgetResult: () => void
  readonly recordResult: (tree: string | undefined, count: object, isPassed: boolean) => void
  readonly recordedResult: () => Count | undefined
}
type Suites = Readonly<Record<'fast' | 'whole' | 'waiting' | 'alone' | 'nightly' | 'random', readonly string[]>>

/** Makes a checkout with the scripts and one source file, as `npm test` leaves it after a run. */
async function checkout (t: Test): Promise<{ folder: string, recorded: Recorded }> {
  const folder = t.testdir({ src: { 'a.ts': 'export const a = 1\n' }, '.gitignore': 'node_modules/\n.tap/\n' })
  cpSync(join(root, 'scripts'), join(folder, 'scripts'), { recursive: true })
  execFileSync('git', ['init', '--quiet'], { cwd: folder })
  mkdirSync(join(folder, '.tap/coverage'), { recursive: true })
  writeFileSync(join(folder, '.tap/coverage/one.json'), '{}')
  const { href } = pathToFileURL(join(folder, 'scripts/recorded.js'))
  return { folder, recorded: await import(href) as Recorded }
}

const count = { passed: 7, skipped: [], failed: [], files: [] }

t.test('every test file is in exactly one set', async t => {
  const { suites } = await import(pathToFileURL(join(root, 'scripts/suites.js')).href) as { suites: () => Suites }
  const { fast, whole, waiting, alone, nightly, random } = suites()
  const all = [...fast, ...whole, ...waiting, ...alone, ...nightly]
  const tracked = execFileSync('git', ['ls-files', 'test/*.test.ts'], { cwd: root }).toString().trim().split('\n')
  t.equal(new Set(all).size, all.length)
  t.same(tracked.filter(file => !all.includes(file)), [])
  t.same(random.filter(file => !all.includes(file)), [])
})

t.test('a passed run counts again on the same tree', async t => {
  const { recorded } = await checkout(t)
  t.equal(recorded.recordedResult(), undefined)
  recorded.recordResult(recorded.treeDigest(), count, true)
  t.match(recorded.recordedResult(), count)
  recorded.forgetResult()
  t.equal(recorded.recordedResult(), undefined)
})

t.test('a passed run does not count after a file is changed, added or deleted', async t => {
  const { folder, recorded } = await checkout(t)
  recorded.recordResult(recorded.treeDigest(), count, true)
  const file = join(folder, 'src/a.ts')
  const text = readFileSync(file, 'utf8')
  for (
    const [path, change] of [[file, `${text}// changed\n`], [join(folder, 'src/b.ts'), ''], [
      join(folder, 'package-lock.json'),
      '{}'
    ]] as const
  ) {
    writeFileSync(path, change)
    t.equal(recorded.recordedResult(), undefined, path)
    if (path === file) {
      writeFileSync(file, text)
      t.match(recorded.recordedResult(), count)
    }
  }
})

t.test('a failed run, and a run during which the tree changed, do not count', async t => {
  const { folder, recorded } = await checkout(t)
  recorded.recordResult(recorded.treeDigest(), count, false)
  t.equal(recorded.recordedResult(), undefined)
  recorded.forgetResult()
  const before = recorded.treeDigest()
  writeFileSync(join(folder, 'src/a.ts'), 'export const a = 2\n')
  recorded.recordResult(before, count, true)
  t.equal(recorded.recordedResult(), undefined)
})
