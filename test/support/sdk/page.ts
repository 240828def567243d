import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { type BrowserContext, type Page } from 'playwright-core'
import { type Test } from 'tap'
import ts from 'typescript'
import { type ChainFixture } from './calls.js'
import { type SdkReader } from './fresh-client.js'
import { bundle } from './bundle.js'
import { listening } from '../stub-upstream.js'

const html = '<!doctype html><html lang="en"><title>A reader</title><script src="/sdk.js"></script><script ' +
  'type="module" src="/in-page.js"></script></html>'
const modules = ['in-page', 'calls', 'call-result']

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
