import { createServer } from 'node:http'
import { type BrowserContext, type Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { type Sandbox } from '#sandbox'
import { startChromium } from '../support/browser.js'
import { listening } from '../support/stub-upstream.js'
import { varveAtSandbox } from '../support/varve.js'

const browser = startChromium(t)
const item = '/v1/tables/0x5eed/item'
const key = JSON.stringify({ key_type: 'u64', value_type: 'u64', key: '7' })
const targets = [
  '/v1',
  '/v1/accounts/0x1/modules?ledger_version=2000&limit=2',
  '/v1/accounts/0x1/modules?ledger_version=1',
  '/v1/blocks/by_version/2000',
  '/v1/-/healthy',
  `${item}?ledger_version=2000`,
  item
]

async function contextOf (t: Test): Promise<BrowserContext> {
  const context = await (await browser).newContext()
  t.teardown(async () => await context.close())
  return context
}

/** Opens an empty page on an origin of its own. */
async function openOrigin (t: Test, context: BrowserContext): Promise<{ page: Page, origin: string }> {
  const origin = await listening(
    t,
    createServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>A reader</title>')
    })
  )
  const page = await context.newPage()
  await page.goto(origin)
  return { page, origin }
}

/** Reads from a page with its cookies, and with a header that makes the browser ask first. */
async function readIn (page: Page, url: string): Promise<string> {
  const body = url.includes(item) ? key : undefined
  return await page.evaluate(async ([url, body]) => {
    const headers = { 'x-aptos-client': 'a page', ...body !== undefined && { 'content-type': 'application/json' } }
    const request = { headers, credentials: 'include' as const, ...body !== undefined && { method: 'POST', body } }
    return await fetch(String(url), request).then(async got => `${got.status} ${await got.text()}`, String)
  }, [url, body])
}

const linesOf = ({ requests }: Sandbox): string => requests.latest.flatMap(({ headers }) => headers).join('\n')

t.test('a page of another origin gets the same through varve as directly, missed and cached', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  const { page } = await openOrigin(t, await contextOf(t))
  for (const target of targets) {
    const direct = await readIn(page, sandbox.url + target)
    t.match(direct, /^\d{3} /, target)
    for (const time of ['first', 'second']) t.equal(await readIn(page, varve.url + target), direct, `${time} ${target}`)
  }
})

t.test('the client\'s page sends its cookies; varve forwards none and sets none', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  const context = await contextOf(t)
  // Sets a cookie: cookies belong to a host, whatever the port.
  await context.addCookies([{ name: 'session', value: 'of-the-user', url: varve.url }])
  const { page } = await openOrigin(t, context)
  const cookies = async (): Promise<string[]> =>
    (await context.cookies()).map(({ name, value }) => `${name}=${value}`).sort()
  sandbox.faults.add({ kind: 'headers', set: { 'set-cookie': 'AWSALB=of-the-node; Path=/' } })
  for (const target of targets) t.match(await readIn(page, varve.url + target), /^\d{3} /, target)
  t.ok(sandbox.requests.total > 4)
  t.notMatch(linesOf(sandbox), /cookie|session|of-the-user/i)
  t.same(await cookies(), ['session=of-the-user'])
  sandbox.requests.reset()
  await readIn(page, sandbox.url + item)
  t.match(linesOf(sandbox), /^cookie\nsession=of-the-user/im, 'as the page sends them directly')
  t.same(await cookies(), ['AWSALB=of-the-node', 'session=of-the-user'])
})

t.test('a page whose origin is not in cors.origins gets nothing; one that is listed reads', async t => {
  const [listed, other] = [await openOrigin(t, await contextOf(t)), await openOrigin(t, await contextOf(t))]
  const { varve } = await varveAtSandbox(t, {}, { cors: { origins: [listed.origin] } })
  t.match(await readIn(listed.page, varve.url + item), /^200 /)
  t.equal(await readIn(other.page, varve.url + item), 'TypeError: Failed to fetch')
})
