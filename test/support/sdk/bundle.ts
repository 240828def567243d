import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

const root = createRequire(import.meta.url)

/** Returns a package's browser file for a file: the resolution for Node.js does not select it. */
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

/** Bundles a published package and its dependencies into one script for a page, as a global. */
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
