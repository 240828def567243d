import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, relative } from 'node:path'
import ts from 'typescript'
import { filesIn } from './compile.js'
import { at, giveUpOn } from './ground.js'

// Writes JavaScript without checking types: `npm test` checks program, sandbox and tests once, in one run of tsc.
const compilerOptions = {
  module: ts.ModuleKind.ESNext,
  target: ts.ScriptTarget.ES2023,
  isolatedModules: true,
  sourceMap: true
}
const host = { getCurrentDirectory: () => at(), getNewLine: () => '\n', getCanonicalFileName: name => name }

const faults = []
for (const [folder, output] of [['src', 'dist'], ['sandbox', 'dist/sandbox']]) {
  for (const file of filesIn(folder).filter(name => name.endsWith('.ts'))) {
    const { outputText, sourceMapText, diagnostics } = ts.transpileModule(readFileSync(at(file), 'utf8'), {
      compilerOptions,
      fileName: at(file),
      reportDiagnostics: true
    })
    faults.push(...diagnostics)
    const path = at(output, file.slice(folder.length).replace(/\.ts$/, '.js'))
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, outputText)
    const map = { ...JSON.parse(sourceMapText), sources: [relative(dirname(path), at(file))] }
    writeFileSync(`${path}.map`, JSON.stringify(map))
  }
}
giveUpOn(faults.length === 0 ? undefined : ts.formatDiagnostics(faults, host))
