import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

const root = createRequire(import.meta.url)

/** What a package has in the place of a file where that is to run in a page; `node` alone knows no such thing. */
function forPages (specifier: string, file: string): string {
  switch (specifier) {
    case '@aptos-labs/aptos-client':
      return join(dirname(file), '../browser/index.browser.js')
    case '@noble/hashes/crypto':
      return file.replace('cryptoNode.js', 'crypto.js')
    default:
      return file
  }
}

/**
 * A package and all that it stands on as one script for a page, which leaves it in a global; its files are as they were
 * published.
 */
export function bundle (specifier: string, globalName: string): string {
  const modules = new Map<string, { text: string, requires: Record<string, string> }>()
  const add = (file: string): void => {
    if (modules.has(file)) return
    const text = readFileSync(file, 'utf8')
    const requires: Record<string, string> = {}
    modules.set(file, { text, requires })
    const { resolve } = createRequire(file)
    for (const [, name = ''] of text.matchAll(/\brequire\(['"]([^'"]+)['"]\)/g)) {
      requires[name] = forPages(name, resolve(name))
      add(requires[name])
    }
  }
  const entry = root.resolve(specifier)
  add(entry)
  const table = [...modules].map(([file, { text, requires }]) =>
    `${JSON.stringify(file)}: [${JSON.stringify(requires)}, (module, exports, require) => {${text}\n}]`
  )
  return `globalThis.${globalName} = (() => {
const modules = {${table.join(',\n')}}
const loaded = {}
const load = file => {
  if (loaded[file] === undefined) {
    const module = loaded[file] = { exports: {} }
    const [requires, body] = modules[file]
    body(module, module.exports, name => load(requires[name]))
  }
  return loaded[file].exports
}
return load(${JSON.stringify(entry)})
})()
`
}
