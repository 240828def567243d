import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t, { type Test } from 'tap'

const root = join(import.meta.dirname, '..')

interface Count {
  readonly passed: number
}
interface Recorded {
  readonly treeDigest: () => string | undefined
  readonly deleteRecord: () => void
  readonly recordResult: (tree: string | undefined, count: object, isPassed: boolean) => void
  readonly recordedResult: () => Count | undefined
}
interface Runner {
  readonly runFiles: (
    groups: readonly string[][],
    options: { jobs: number, timeoutSeconds: number, isCovered: boolean },
    onLine: (line: string) => void
  ) => Promise<void>
}
type Suites = Readonly<
  Record<'fast' | 'replicas' | 'waiting' | 'alone' | 'waits' | 'idle' | 'nightly' | 'random', readonly string[]>
>

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
  const { random, ...sets } = suites()
  const all = Object.values(sets).flat()
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
  recorded.deleteRecord()
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
  recorded.deleteRecord()
  const before = recorded.treeDigest()
  writeFileSync(join(folder, 'src/a.ts'), 'export const a = 2\n')
  recorded.recordResult(before, count, true)
  t.equal(recorded.recordedResult(), undefined)
})

t.test('files that share a process are reported one by one, also after one of them ends it', async t => {
  const folder = t.testdir({
    'package.json': '{"type":"module"}',
    '.tap': {
      js: {
        'pass.test.js': 'import t from "tap"\nt.test("a", async t => { t.pass() })',
        'fail.test.js': 'import t from "tap"\nt.test("a", async t => { t.fail() })',
        'throw.test.js': 'import t from "tap"\nt.test("a", async t => { t.pass() })\nthrow new Error("cannot load")',
        'exit.test.js': 'import t from "tap"\nt.test("a", async t => { t.pass() })\nprocess.exit(0)',
        'last.test.js': 'import t from "tap"\nt.test("a", async t => { t.pass() })'
      }
    }
  })
  cpSync(join(root, 'scripts'), join(folder, 'scripts'), { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  const { runFiles } = await import(pathToFileURL(join(folder, 'scripts/run-files.js')).href) as Runner
  const run = async (...names: string[]): Promise<string[]> => {
    const lines: string[] = []
    const files = names.map(name => `${name}.test.ts`)
    await runFiles([files], { jobs: 1, timeoutSeconds: 30, isCovered: false }, line => lines.push(line))
    return lines.filter(line => /^(?:not )?ok/.test(line)).map(line => line.replace(/ # time.*$/, ''))
  }
  t.same(await run('pass', 'fail', 'throw', 'last'), [
    'ok - pass.test.ts',
    'not ok - fail.test.ts',
    'not ok - throw.test.ts',
    'ok - last.test.ts'
  ])
  t.same(await run('pass', 'exit', 'last'), [
    'ok - pass.test.ts',
    'not ok - exit.test.ts',
    'not ok - last.test.ts'
  ])
  t.same(await run('exit'), ['not ok - exit.test.ts'])
})

t.test('a walk lists the files that a hit, a miss and a chain reset pass, fewest for a hit', t => {
  const printed = execFileSync(process.execPath, [join(root, 'scripts/walk.js'), 'hit', 'miss', 'reset'], {
    encoding: 'utf8',
    // The coverage of changed sources would be counted for the places of others.
    env: { ...process.env, NODE_OPTIONS: '' }
  })
  const [hit = 0, miss = 0, reset = 0] = [...printed.matchAll(/^\w+: \d+ functions in (\d+) files/gm)].map((
    [, files]
  ) => Number(files))
  t.ok(hit > 5 && hit < miss && miss < reset && reset < 100, printed)
  t.match(printed, /^ {2}proxy\/serve-read\.ts$/m)
  t.match(printed, /^ {2}chain\/spaces\.ts$/m)
  t.end()
})
