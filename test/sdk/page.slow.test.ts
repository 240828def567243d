import { type BrowserContext } from 'playwright-core'
import t, { type Test } from 'tap'
import { type Sandbox } from '#sandbox'
import { startChromium } from '../support/browser.js'
import { callOf, readCalls, upstreamErrorCalls } from '../support/sdk/calls.js'
import { chainFixtureOf, checkSameThroughVarve } from '../support/sdk/fresh-client.js'
import { pageWithSdk, readerInPage } from '../support/sdk/page.js'
import { varveAtSandbox } from '../support/varve.js'

const browser = startChromium(t)

async function contextOf (t: Test): Promise<BrowserContext> {
  const context = await (await browser).newContext()
  t.teardown(async () => await context.close())
  return context
}

const linesOf = ({ requests }: Sandbox): string => requests.latest.flatMap(({ headers }) => headers).join('\n')

t.test('in a page of another origin the official client gets the same through varve as directly', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  const ground = chainFixtureOf(sandbox)
  const context = await contextOf(t)
  const pageUrl = await pageWithSdk(t, [sandbox.url, varve.url])
  const readers = {
    direct: await readerInPage(context, pageUrl, sandbox.url, ground),
    first: await readerInPage(context, pageUrl, varve.url, ground),
    second: await readerInPage(context, pageUrl, varve.url, ground)
  }
  await checkSameThroughVarve(t, sandbox, readCalls, 'value', readers)
  await checkSameThroughVarve(t, sandbox, upstreamErrorCalls, 'error', readers)
})

t.test('the client\'s page sends its cookies; varve forwards none and sets none', async t => {
  const { sandbox, varve } = await varveAtSandbox(t)
  const ground = chainFixtureOf(sandbox)
  const context = await contextOf(t)
  // Sets a cookie: cookies belong to a host, whatever the port.
  await context.addCookies([{ name: 'session', value: 'of-the-user', url: varve.url }])
  const pageUrl = await pageWithSdk(t, [sandbox.url, varve.url])
  const direct = await readerInPage(context, pageUrl, sandbox.url, ground)
  const through = await readerInPage(context, pageUrl, varve.url, ground)
  const set = async (value: string): Promise<void> => {
    sandbox.faults.add({ kind: 'headers', set: { 'set-cookie': `AWSALB=${value}; Path=/` } })
  }
  const cookies = async (): Promise<string[]> =>
    (await context.cookies()).map(({ name, value }) => `${name}=${value}`).sort()
  let requestCount = 0
  for (
    const title of [
      'ledger info',
      'modules',
      'table item',
      'block by version',
      'latest table item',
      'block by height',
      'view',
      'transactions of an account'
    ]
  ) {
    sandbox.faults.clear()
    await set('through-varve')
    sandbox.requests.reset()
    t.match(await through.run(callOf(title)), { result: /^\{"value":/ }, title)
    requestCount += sandbox.requests.total
    t.notMatch(linesOf(sandbox), /cookie|session|of-the-user/i, `${title}: goes upstream without`)
  }
  t.ok(requestCount > 4)
  t.same(await cookies(), ['session=of-the-user'])
  sandbox.faults.clear()
  await set('from-the-node')
  sandbox.requests.reset()
  await direct.run(callOf('latest table item'))
  t.match(
    linesOf(sandbox),
    /\ncookie\nsession=of-the-user|^cookie\nsession=of-the-user/i,
    'as the client sends them directly'
  )
  t.same(await cookies(), ['AWSALB=from-the-node', 'session=of-the-user'])
})

t.test('a page whose origin is not in cors.origins gets nothing; one that is listed reads', async t => {
  const pageUrls = [await pageWithSdk(t, ['*']), await pageWithSdk(t, ['*'])]
  const { sandbox, varve } = await varveAtSandbox(t, {}, { cors: { origins: pageUrls.slice(0, 1) } })
  const ground = chainFixtureOf(sandbox)
  const results = await Promise.all(pageUrls.map(async pageUrl => {
    const reader = await readerInPage(await contextOf(t), pageUrl, varve.url, ground)
    return (await reader.run(callOf('table item'))).result
  }))
  t.match(results, [/^\{"value":/, /^\{"error":\{"name":"TypeError","message":"Failed to fetch"\}\}$/])
})
