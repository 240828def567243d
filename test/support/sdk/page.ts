import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { join, dirname } from 'node:path'
import { type BrowserContext, type Page } from 'playwright-core'
import { type Test } from 'tap'
import ts from 'typescript'
import { listening } from '../stub-upstream.js'
import { type ChainFixture } from './calls.js'
import { type SdkReader } from './fresh-client.js'

const html = '<!doctype html><html lang="en"><title>A reader</title><script src="/sdk.js"></script><script ' +
  'type="module" src="/in-page.js"></script></html>'
const modules = ['in-page', 'calls']

/** Serves a page with the client on an origin of its own, which may connect only to the given addresses. */
export async function pageWithSdk (t: Test, reaches: readonly string[]): Promise<string> {
  const files = new Map([['/sdk.js', bundle('@aptos-labs/ts-sdk', 'sdk')]])
  for (const name of modules) files.set(`/${name}.js`, printed(join(import.meta.dirname, `${name}.ts`)))
  const policy = `default-src 'none'; script-src 'self'; connect-src ${reaches.join(' ')}`
  const server = createServer((request, response) => {
    const script = files.get(String(request.url))
    if (script !== undefined) response.writeHead(200, { 'content-type': 'text/javascript; charset=utf-8' }).end(script)
    else if (request.url === '/') {
      response.writeHead(200, { 'content-type': 'text/html; charset=utf-8', 'content-security-policy': policy }).end(
        html
      )
    } else response.writeHead(404).end()
  })
  return await listening(t, server)
}

/** Creates a client without memory in a page. */
export async function readerInPage (
  context: BrowserContext,
  pageUrl: string,
  upstreamUrl: string,
  ground: ChainFixture
): Promise<SdkReader & { page: Page }> {
  const page = await context.newPage()
  let sent: string[] = []
  page.on('request', request => {
    const { origin, pathname, search } = new URL(request.url())
    if (origin === upstreamUrl) sent.push(`${request.method()} ${pathname}${search}`)
  })
  await page.goto(pageUrl)
  await page.waitForFunction('globalThis.runCall !== undefined')
  return {
    page,
    async run ({ title }) {
      sent = []
      const result = await page.evaluate<string>(
        `runCall(${JSON.stringify(upstreamUrl)}, ${JSON.stringify(title)}, ${JSON.stringify(ground)})`
      )
      return { result, sent }
    }
  }
}

function printed (file: string): string {
  const { ES2023: target } = ts.ScriptTarget
  return ts.transpileModule(readFileSync(file, 'utf8'), {
    compilerOptions: { target, module: ts.ModuleKind.ESNext, verbatimModuleSyntax: true }
  }).outputText
}

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
