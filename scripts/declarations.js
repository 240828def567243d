import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import ts from 'typescript'
import { tsc } from './compile.js'
import { at, run } from './ground.js'

/** Modules that package.json exports, by their name there. */
const entries = { varve: 'src/app/embedding.ts', 'varve/sandbox': 'sandbox/sandbox.ts' }

const options = [
  ...['--noEmit', 'false', '--declaration', '--emitDeclarationOnly', '--stripInternal'],
  ...['--noCheck', '--rootDir', '.']
]

// Not printed: config/varve.schema.json has the keys of the configuration, and docs/openapi.yaml the endpoints.
const printedElsewhere = ['configSchema', 'routes']

/** Returns the declarations of the exported modules and of the modules that they name, by path in `dist`. */
export async function declarations () {
  const folder = mkdtempSync(join(tmpdir(), 'varve-declarations-'))
  try {
    const { code, output } = await run(tsc('-p', '.', ...options, '--outDir', folder))
    if (code !== 0) throw new Error(output)
    const files = new Map()
    const add = file => {
      const path = join(folder, file)
      if (files.has(file) || !file.endsWith('.d.ts') || !existsSync(path)) return
      files.set(file, readFileSync(path, 'utf8'))
      for (const { fileName } of ts.preProcessFile(files.get(file)).importedFiles) add(declarationOf(file, fileName))
    }
    for (const entry of Object.values(entries)) add(entry.replace(/\.ts$/, '.d.ts'))
    return new Map([...files].map(([file, text]) => [file.replace(/^src\//, ''), text]))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Prints every declaration that the exported names reach, without comments and private members. */
export function apiReport (files) {
  return Object.entries(entries).map(([name, entry]) => {
    const start = entry.replace(/^src\//, '').replace(/\.ts$/, '.d.ts')
    const reached = new Map()
    for (const exported of exportsOf(files, start)) reach(files, reached, ...exported)
    const printed = [...reached].sort(([a], [b]) => a < b ? -1 : 1).map(([, text]) => text)
    return `// ${name}\n\n${printed.join('\n\n')}\n`
  }).join('\n')
}

function exportsOf (files, file) {
  return statementsOf(files, file).flatMap(statement =>
    ts.isExportDeclaration(statement)
      ? statement.exportClause.elements.map(({ name, propertyName = name }) => [
        declarationOf(file, statement.moduleSpecifier.text),
        propertyName.text
      ])
      : namesOf(statement).map(name => [file, name])
  )
}

function reach (files, reached, file, name) {
  const statement = statementsOf(files, file).find(one => namesOf(one).includes(name))
  const key = `${name} ${file}`
  if (statement === undefined || reached.has(key)) return
  reached.set(key, printOf(statement))
  const imports = importsOf(files, file)
  const visit = node => {
    const name = nameIn(node)
    if (name !== undefined && !printedElsewhere.includes(name)) {
      reach(files, reached, ...imports.get(name) ?? [file, name])
    }
    ts.forEachChild(node, visit)
  }
  ts.forEachChild(statement, visit)
}

/** Returns the name that a type, a `typeof` or an `extends` refers to. */
function nameIn (node) {
  const name = ts.isTypeReferenceNode(node)
    ? node.typeName
    : ts.isTypeQueryNode(node)
    ? node.exprName
    : ts.isExpressionWithTypeArguments(node)
    ? node.expression
    : undefined
  return name !== undefined && ts.isIdentifier(name) ? name.text : undefined
}

function declarationOf (file, specifier) {
  return join(dirname(file), specifier.replace(/\.js$/, '.d.ts'))
}

function statementsOf (files, file) {
  return [...ts.createSourceFile(file, files.get(file) ?? '', ts.ScriptTarget.Latest, true).statements]
}

function importsOf (files, file) {
  return new Map(
    statementsOf(files, file).filter(ts.isImportDeclaration).flatMap(({ importClause, moduleSpecifier }) =>
      (importClause?.namedBindings?.elements ?? []).map(({ name, propertyName = name }) => [
        name.text,
        [declarationOf(file, moduleSpecifier.text), propertyName.text]
      ])
    )
  )
}

function namesOf (statement) {
  if (ts.isVariableStatement(statement)) return statement.declarationList.declarations.map(({ name }) => name.text)
  return ts.isImportDeclaration(statement) || statement.name === undefined ? [] : [statement.name.text]
}

function printOf (statement) {
  const printer = ts.createPrinter({ removeComments: true })
  return printer.printNode(ts.EmitHint.Unspecified, statement, statement.getSourceFile()).split('\n')
    .filter(line => !/^ {4}(?:#private|private .*);$/.test(line)).join('\n')
}

if (import.meta.url === pathToFileURL(resolve(process.argv[1] ?? '')).href) {
  for (const [file, text] of await declarations()) {
    mkdirSync(dirname(at('dist', file)), { recursive: true })
    writeFileSync(at('dist', file), text)
  }
}
