import { cpSync, existsSync, readFileSync, rmSync } from 'node:fs'
import { relative } from 'node:path'
import { filesIn } from './compile.js'
import { at, program, root, run, textOf } from './ground.js'

/** Folder in which each process of the last run leaves its coverage. */
export const collected = '.tap/coverage'
const report = '.tap/report/coverage-final.json'
// Folders and files that require full coverage; other folders require a share of lines.
const whole = [
  'src/api/',
  'src/cache/',
  'src/proxy/',
  ...['anchors', 'tracker', 'version-waits'].map(name => `src/chain/${name}.ts`)
]
const share = 0.95

/** Reports the coverage of the last run and of the given folders; returns the shortfalls. */
export async function checkCoverage (...folders) {
  // Removes the last report, so that a failed run cannot pass with it.
  rmSync(at(report), { force: true })
  for (const folder of folders) if (existsSync(at(folder))) cpSync(at(folder), at(collected), { recursive: true })
  const { code, output } = await run(program('tap/dist/esm/run.mjs', 'report', 'json', '--allow-incomplete-coverage'))
  return code === 0 ? gapsOf() : [`the coverage could not be reported:\n${output}`]
}

/** Prints every file with a gap; returns the shortfalls. */
function gapsOf () {
  const text = textOf(report)
  if (text === undefined) return ['no coverage was reported']
  const measured = new Map(
    Object.values(JSON.parse(text))
      .map(file => [relative(root, file.path).replaceAll('\\', '/'), file])
  )

  const faults = []
  const folders = new Map()
  for (const path of ['src', 'sandbox'].flatMap(filesIn).filter(path => path.endsWith('.ts') && hasCode(path))) {
    const file = countsOf(path, measured.get(path))
    if (file.gaps.length > 0) console.log(`coverage: ${path}: ${file.gaps.join('; ')}`)
    const parent = path.split('/').slice(0, -1).slice(0, 2).join('/')
    // Counts the two files directly in src with src/cli: one is its entry point.
    const folder = parent === 'src' ? 'src/cli' : parent
    const total = folders.get(folder) ?? { lines: 0, covered: 0 }
    folders.set(folder, { lines: total.lines + file.lines, covered: total.covered + file.covered })
    if (whole.some(part => path.startsWith(part)) && file.gaps.length > 0) faults.push(`${path} is not covered in full`)
  }
  for (const [folder, { lines, covered }] of folders) {
    const percent = Math.floor(covered / lines * 1000) / 10
    console.log(`coverage: ${folder} ${percent} % of ${lines} lines`)
    if (covered / lines < share) faults.push(`${folder} is covered to ${percent} %, not 95 %`)
  }
  return faults
}

// Files with types only compile to nothing, so no test can load them.
function hasCode (path) {
  const compiled = path.replace(/^src\//, '').replace(/^/, 'dist/').replace(/\.ts$/, '.js')
  return readFileSync(at(compiled), 'utf8').replace(/^\/\/#.*$/m, '').trim() !== 'export {};'
}

// V8 reports ranges, which tap converts to one statement per line; lines and statements are therefore equal.
function countsOf (path, file) {
  if (file === undefined) {
    return { lines: textOf(path).split('\n').length, covered: 0, gaps: ['no test loads it'] }
  }
  const missed = (map, hits) => Object.keys(hits).filter(id => [hits[id]].flat().includes(0)).map(id => map[id])
  const lines = Object.keys(file.s).length
  const statements = missed(file.statementMap, file.s).map(({ start }) => start.line)
  const branches = missed(file.branchMap, file.b).map(({ loc }) => loc.start.line)
  const functions = missed(file.fnMap, file.f).map(({ name, loc }) => `${name} (line ${loc.start.line})`)
  const gaps = []
  if (statements.length > 0) gaps.push(`lines ${ranges(statements)}`)
  if (branches.length > 0) gaps.push(`branches at ${ranges(branches)}`)
  if (functions.length > 0) gaps.push(`functions ${functions.join(', ')}`)
  return { lines, covered: lines - statements.length, gaps }
}

/** Joins consecutive numbers: 1, 2, 3, 7 becomes 1-3, 7. */
function ranges (numbers) {
  const runs = []
  for (const line of [...new Set(numbers)].sort((a, b) => a - b)) {
    const last = runs.at(-1)
    if (last?.[1] === line - 1) last[1] = line
    else runs.push([line, line])
  }
  return runs.map(([from, to]) => from === to ? `${from}` : `${from}-${to}`).join(', ')
}
