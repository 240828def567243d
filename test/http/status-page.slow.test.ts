import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { type BrowserContextOptions, type Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { outcomeNames } from '../../src/proxy/outcomes.js'
import { states } from '../cases/status-states.js'
import { openPage, type OpenedPage, startChromium } from '../support/browser.js'
import { freePort } from '../support/free-port.js'
import { startRedis } from '../support/redis-server.js'
import { startSandboxNode } from '../support/replicas.js'
import { degradedStatus, recentFixture, serveStatus, healthyStatus } from '../support/status-fixtures.js'
import { listening, stamps, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { varveAt } from '../support/varve.js'

const modules = '/v1/accounts/0x1/modules?limit=1'
const browser = startChromium(t)
const wordsOf = parse(readFileSync('test/cases/status-words.yaml', 'utf8')) as Record<string, Record<string, string>>

/** Opens the page of a varve that reports what the test sets. */
async function openStatusPage (
  t: Test,
  status: object | Error,
  options: BrowserContextOptions = {}
): Promise<OpenedPage & { setting: { status: object | Error }, url: string }> {
  const setting = { status }
  const { url } = await serveStatus(t, setting)
  const looked = await openPage(t, await browser, `${url}/status`, options)
  await looked.page.waitForSelector('#condition:not([hidden])')
  return { ...looked, setting, url }
}

const textOf = async (page: Page, selector: string): Promise<string> =>
  (await page.locator(selector).innerText()).replaceAll('\u00a0', ' ').replace(/[\u2068\u2069]/g, '').replace(
    /\s+/g,
    ' '
  ).trim()

async function untilText (page: Page, selector: string, expected: RegExp): Promise<void> {
  await until(async () => expected.test(await textOf(page, selector)), `${selector} says ${expected}`)
}

/** Expects no browser complaint and no request to another host. */
function isQuiet (t: Test, { requestedUrls, complaints }: OpenedPage, url: string): void {
  t.same(complaints, [])
  t.ok(requestedUrls.length > 5)
  t.same(requestedUrls.filter(address => !address.startsWith(`${url}/status`) && !address.startsWith('data:')), [])
}

t.test('the page of a sandbox has a banner, and no other page has it', async t => {
  const { page, setting } = await openStatusPage(
    t,
    healthyStatus({
      degraded: ['sandbox'],
      level: 'amber',
      conditions: [{ level: 'amber', text: 'sandbox' }],
      varve: { version: '0.1.0', isSandbox: true }
    })
  )
  await untilText(page, '#sandbox', /^Sandbox\. All data is made up: this varve serves its embedded sandbox/)
  await untilText(page, '#reasons', /^sandbox$/)
  setting.status = healthyStatus()
  await until(async () => await page.locator('#sandbox').isHidden(), 'the banner is gone')
})

t.test('the page shows traffic live, and says when an upstream, Redis or varve stops and returns', async t => {
  const redis = await startRedis(t)
  const sandboxes = [await startSandboxNode(t, { prunedBlocks: 0 }), await startSandboxNode(t, { prunedBlocks: 0 })]
  const admin = `127.0.0.1:${await freePort()}`
  const upstreams = sandboxes.map(({ url }, at) => ({ name: `n${at + 1}`, url, timeoutMs: 1000 })) as never
  const change = { upstreams, head: { pollMs: 100 }, cache: { redis: { url: `redis://127.0.0.1:${redis.port}` } } }
  const varve = await varveAt(t, '', { ...change, admin: { listen: admin } })
  const read = async (version: number | string): Promise<void> => {
    await varve.get(`${modules}&ledger_version=${version}`)
  }
  for (const version of [500, 501, 502, 500, 500, 501, 'x']) await read(version)
  await varve.get(modules)

  const looked = await openPage(t, await browser, `http://${admin}/status`)
  const { page } = looked
  await untilText(page, '#verdict', /^varve is healthy$/)
  t.equal(await textOf(page, '#hit-rate'), '50 %')
  t.match(await textOf(page, '#hit-note'), /^3 of 6 cacheable reads since the start \d+ seconds? ago$/)
  const legend = async (): Promise<string[]> =>
    (await page.evaluate<string[]>(
      '[...document.querySelectorAll("#legend li")].map(({ children }) => children[1].innerText + " " + ' +
        'children[2].innerText)'
    )).filter(text => !text.endsWith(' 0'))
  t.same(await legend(), ['Memory hit 3', 'Miss 3', 'Forwarded 1', 'Rejected, 4xx 1'])
  t.equal(await textOf(page, '#version'), String(sandboxes[0]?.ledger.head.version).replace(/\B(?=(\d{3})+$)/g, ','))
  t.equal(await textOf(page, '#upstream-count'), '2 of 2')
  t.match(await textOf(page, '#tiers'), /Redis up/)

  for (let nth = 0; nth < 5; nth++) await read(502)
  await until(async () => (await legend())[0] === 'Memory hit 8', 'the page has gone on')
  sandboxes[0]?.ledger.grow(1000)
  const grown = String(sandboxes[0]?.ledger.head.version).replace(/\B(?=(\d{3})+$)/g, ',')
  await until(async () => await textOf(page, '#version') === grown, 'the page shows the new position')
  t.match(await textOf(page, '#upstreams tbody tr:nth-child(2)'), /n2.* up .*versions/)

  await sandboxes[1]?.close()
  await untilText(page, '#upstreams tbody tr:nth-child(2)', /n2 .*down refused|n2 .*down/)
  await untilText(page, '#verdict', /^varve is ready, with 1 warning$/)
  t.match(await textOf(page, '#about'), /, chain 4$/)
  await untilText(page, '#reasons', /n2 is down/)
  t.equal(await textOf(page, '#upstream-count'), '1 of 2')
  await redis.kill()
  await untilText(page, '#reasons', /Redis unreachable/)
  await untilText(page, '#tiers', /Redis unreachable/)
  isQuiet(t, looked, `http://${admin}`)

  await varve.stop({ drainMs: 0 })
  await untilText(page, '#verdict', /^varve is unreachable since \d\d:\d\d:\d\d: connection failed$/)
  await untilText(page, '#failure', /^For .*seconds?\. The data below is from before\./)
  t.match(await page.title(), /^varve: unreachable, .+, chain 4$/)
  t.equal(await textOf(page, '#version'), grown, 'the last known data is still shown')
  await varveAt(t, '', { upstreams: [{ name: 'n1', url: sandboxes[0]?.url ?? '' }] as never, admin: { listen: admin } })
  await untilText(page, '#verdict', /^varve is healthy$/)
  t.equal(await page.locator('#failure').isVisible(), false)
  t.equal(await textOf(page, '#hit-rate'), 'no reads yet')
  await untilText(page, '#upstreams tbody', /^n1 .* up/)
})

t.test('the page words any status without invalid numbers, and runs or loads nothing of it', async t => {
  const looked = await openStatusPage(t, states['healthy'] ?? {})
  const { page, setting, url } = looked
  await page.exposeFunction('alert', () => looked.complaints.push('something ran'))
  for (const [state, texts] of Object.entries(wordsOf)) {
    setting.status = { ...states[state], nth: state }
    await page.reload()
    await page.waitForSelector('#status:not([hidden])')
    for (const [selector, words] of Object.entries(texts)) await untilText(page, selector, new RegExp(words))
    const { follow } = states[state] as { readonly follow?: object }
    t.equal(await page.locator('#follow-panel').isVisible(), follow !== undefined, state)
    const all = await textOf(page, 'body')
    t.notMatch(all, /NaN|undefined|null|Infinity|\[object/, state)
    t.equal(await page.locator('main script, main img, main [onload], main [onerror]').count(), 0, state)
    t.ok(all.length < 12_000, `${state}: ${all.length} characters`)
    t.ok(await page.evaluate('document.querySelectorAll("#chart path").length') === outcomeNames.length, state)
  }
  isQuiet(t, looked, url)
})

t.test('markup in everything that upstreams say is text on the page', async t => {
  const markup = '<img src=x onerror=alert(1)>'
  const startUpstreamWith = async (change: Record<string, string>, status = 200): Promise<string> =>
    (await startStubUpstream(t, (_request, response) => {
      response.writeHead(status, markup, { 'content-type': 'text/html', ...stamps(change) }).end(markup)
    }, (_request, response) => {
      const index = JSON.stringify({ git_hash: markup, chain_id: markup, node_role: markup })
      response.writeHead(status, markup, { 'content-type': 'text/html', server: markup, ...stamps(change) }).end(index)
    })).url
  const upstreams = [
    await startUpstreamWith({}),
    await startUpstreamWith({ 'x-aptos-chain-id': markup }),
    await startUpstreamWith({ 'x-aptos-chain-id': '5' }),
    await startUpstreamWith({ 'x-aptos-ledger-version': markup }, 500),
    await startUpstreamWith({ 'x-aptos-block-height': markup })
  ].map((url, at) => ({ name: `n${at + 1}`, url }))
  const varve = await varveAt(t, '', { upstreams: upstreams as never, head: { pollMs: 100 } })
  await varve.get(`${modules}&ledger_version=500`)
  const looked = await openPage(t, await browser, `${varve.adminUrl}/status`)
  const { page, complaints } = looked
  await page.exposeFunction('alert', () => complaints.push('something ran'))
  await untilText(page, '#reasons', /n3 is quarantined/)
  await untilText(page, '#upstreams', /n4 .*status 500/)
  t.equal(await page.locator('main script, main img, main [onload], main [onerror]').count(), 0)
  isQuiet(t, looked, varve.adminUrl)
})

t.test('the page puts a malformed status into words too and keeps polling', async t => {
  const { page, setting } = await openStatusPage(t, new Error('boom'))
  await untilText(page, '#verdict', /^varve is unreachable since [\d:]+: status 500$/)
  t.equal(await page.locator('#status').isVisible(), false, 'no unreported data is shown')
  setting.status = { ready: true, upstreams: 'none' }
  await untilText(page, '#verdict', /^varve is unreachable since/)
  setting.status = healthyStatus()
  await untilText(page, '#verdict', /^varve is healthy$/)
})

const sizes = [[360, 1], [360, 2], [1280, 1]] as const
// Layout costs processor time, so only the widest texts get these.
const otherSizes = [[640, 1], [768, 1], [1280, 2], [2560, 1]] as const
const widest = 'numbers as large as they get'

t.test('the page never scrolls sideways: on a phone, on a desktop, and at twice the text size', async t => {
  const { page, setting } = await openStatusPage(t, healthyStatus())
  const scrolls = async (): Promise<unknown> =>
    await page.evaluate(`({
    page: document.documentElement.scrollWidth > innerWidth,
    cut: [...document.querySelectorAll('main *')].filter(element => !element.closest('.scrolls, .unseen, thead, svg, [hidden]') && element.getBoundingClientRect().right > innerWidth + 1).map(element => element.id || element.className || element.tagName)
  })`)
  for (const [state, status] of Object.entries(states)) {
    setting.status = status
    await page.reload()
    await page.waitForSelector('#status:not([hidden])')
    for (const [width, zoom] of state === widest ? [...sizes, ...otherSizes] : sizes) {
      await page.setViewportSize({ width, height: 900 })
      await page.evaluate(`document.documentElement.style.fontSize = '${zoom * 100}%'`)
      t.same(await scrolls(), { page: false, cut: [] }, `${state} at ${width}, text ${zoom * 100} %`)
    }
  }
})

t.test('the keyboard reaches every control in reading order, with a visible focus', async t => {
  const { page } = await openStatusPage(t, healthyStatus())
  const focused = async (): Promise<string> =>
    await page.evaluate(`(() => {
    const { activeElement: at } = document
    const { outlineStyle, outlineWidth } = getComputedStyle(at)
    const box = at.getBoundingClientRect()
    return at === document.body ? '' : at.innerText.trim().split('\\n')[0].slice(0, 30) + (outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2 && box.width > 0 && box.top >= 0 ? '' : ' (not to be seen)')
  })()`)
  const walk = async (key: string, steps: number): Promise<string[]> => {
    const seen: string[] = []
    for (let step = 0; step < steps; step++) {
      await page.keyboard.press(key)
      seen.push(await focused())
    }
    return seen
  }
  t.same(await walk('Tab', 11), [
    'Skip to the content',
    'The same as a table',
    'Monitoring',
    'Troubleshooting',
    'Runbooks',
    'Metrics',
    'Configuration',
    'status.json',
    'readyz',
    'healthz',
    'metrics'
  ])
  t.equal((await walk('Shift+Tab', 9)).at(-1), 'The same as a table')
  await page.keyboard.press('Enter')
  t.equal(await page.locator('#minutes').isVisible(), true)
  t.equal((await page.locator('#minutes tbody tr').allInnerTexts()).length, 10)
  t.match(await walk('Tab', 2), [/^When/, 'Monitoring'])
  // Waits for a poll, which must not move the focus.
  await page.waitForResponse(/status\.json/)
  await page.waitForResponse(/status\.json/)
  t.equal(await focused(), 'Monitoring')
  await page.reload()
  await page.waitForSelector('#status:not([hidden])')
  await walk('Tab', 1)
  await page.keyboard.press('Enter')
  t.equal(await page.evaluate('document.activeElement.id'), 'main', 'the skip link leads to the content')
})

interface AxNode {
  readonly nodeId: string
  readonly parentId?: string
  readonly ignored: boolean
  readonly role?: { value: string }
  readonly name?: { value: string }
}

t.test('a screen reader finds parts by name, ordered headings, table headers and a described chart', async t => {
  const { page, context, setting } = await openStatusPage(t, degradedStatus())
  const tree = async (): Promise<AxNode[]> => {
    const session = await context.newCDPSession(page)
    const { nodes } = await session.send('Accessibility.getFullAXTree') as unknown as { nodes: AxNode[] }
    await session.detach()
    return nodes.filter(({ ignored }) => !ignored)
  }
  const named = (nodes: AxNode[], role: string): string[] =>
    nodes.filter(node => node.role?.value === role).map(({ name }) => name?.value ?? '')
  for (const width of [1280, 360]) {
    await page.setViewportSize({ width, height: 900 })
    await page.waitForResponse(/status\.json/)
    const nodes = await tree()
    for (const role of ['banner', 'main', 'contentinfo']) t.equal(named(nodes, role).length, 1, role)
    t.same(named(nodes, 'navigation'), ['Endpoints for programs'])
    t.same(named(nodes, 'heading'), [
      'varve',
      'Condition',
      'At a glance',
      'Requests by outcome',
      'Upstreams',
      'Since the start',
      'Top endpoints',
      'Documentation',
      'History and pruning',
      'Cache',
      'This varve'
    ])
    t.same(named(nodes, 'region').filter(name => name === ''), [])
    t.ok(named(nodes, 'region').includes('Upstreams'))
    t.match(
      named(nodes, 'image').join() + named(nodes, 'img').join(),
      /^Requests per second by outcome over ten minutes\. Memory hit: 255,267, Redis hit: [\d,]+, /
    )
    t.same(named(nodes, 'table'), ['Upstreams'], `at ${width}`)
    t.same(named(nodes, 'columnheader'), ['Upstream', 'State', 'Window', 'Lag', 'Latency', 'Requests'])
    for (const role of ['link', 'button', 'DisclosureTriangle', 'textbox', 'columnheader', 'rowheader']) {
      t.same(named(nodes, role).filter(name => name.trim() === ''), [], `each ${role} has a name`)
    }
    t.equal(named(nodes, 'status').length, 1)
  }
  t.equal(await page.getAttribute('html', 'lang'), 'en')

  // Expects announcements of problems only, and only when they change.
  await page.evaluate(
    'globalThis.announced = []; new MutationObserver(() => { ' +
      'announced.push(document.querySelector("[role=status]").innerText) ' +
      '}).observe(document.querySelector("[role=status]"), { childList: true, characterData: true, subtree: ' +
      'true, attributes: true })'
  )
  setting.status = { ...degradedStatus(), recent: recentFixture(121, () => 99) }
  await untilText(page, '#traffic-note', /^143,748 requests/)
  await page.waitForResponse(/status\.json/)
  t.same(await page.evaluate('announced'), [])
  setting.status = healthyStatus()
  await untilText(page, '#verdict', /^varve is healthy$/)
  t.match(await page.evaluate('announced'), [/^varve is healthy\s*$/])
  t.equal(await page.locator('[aria-live], [role=alert], [role=log], [role=timer]').count(), 0, 'and nothing else is')
})

t.test('the page polls while it is visible, and not while it is hidden', async t => {
  const { page, requestedUrls, setting } = await openStatusPage(t, healthyStatus())
  const hide = async (isHidden: boolean): Promise<void> => {
    await page.evaluate(
      `Object.defineProperty(document, 'hidden', { value: ${isHidden}, configurable: true }); ` +
        'document.dispatchEvent(new Event(\'visibilitychange\'))'
    )
  }
  const looks = (): number => requestedUrls.filter(address => address.endsWith('status.json')).length
  await page.waitForResponse(/status\.json/)
  await hide(true)
  const before = looks()
  // Waits two and a half poll intervals.
  await page.waitForTimeout(5000)
  t.ok(looks() <= before + 1, `${looks() - before} more`)
  setting.status = degradedStatus()
  await hide(false)
  await untilText(page, '#verdict', /^varve is ready, with /)
  const again = looks()
  await page.waitForResponse(/status\.json/)
  t.ok(looks() > again)
})

t.test('the page does not animate if the user prefers reduced motion', async t => {
  const moves = 'getComputedStyle(document.querySelector("#upstreams svg .part")).transitionDuration'
  t.equal(await (await openStatusPage(t, healthyStatus(), { reducedMotion: 'reduce' })).page.evaluate(moves), '0s')
  t.not(await (await openStatusPage(t, healthyStatus(), { reducedMotion: 'no-preference' })).page.evaluate(moves), '0s')
})

t.test('without scripts the page says where the same data is', async t => {
  const { url } = await serveStatus(t, { status: healthyStatus() })
  const { page, complaints } = await openPage(t, await browser, `${url}/status`, { javaScriptEnabled: false })
  t.match(
    await textOf(page, 'main'),
    /^This page is drawn by a script, and scripts are switched off here\. status\.json has the same as text/
  )
  t.equal(await page.locator('main a[href="status.json"]').isVisible(), true)
  t.same(complaints.filter(text => !/JavaScript/i.test(text)), [])
})

t.test('the page works behind a proxy with a path prefix, and in no frame', async t => {
  const { url } = await serveStatus(t, { status: healthyStatus() })
  const context = await (await browser).newContext()
  t.teardown(async () => await context.close())
  const page = await context.newPage()
  await page.route('http://ops.example/**', async route => {
    const { pathname } = new URL(route.request().url())
    const fetched = await fetch(url + pathname.replace(/^\/varve/, ''))
    await route.fulfill({
      status: fetched.status,
      headers: Object.fromEntries(fetched.headers),
      body: Buffer.from(await fetched.arrayBuffer())
    })
  })
  await page.goto('http://ops.example/varve/status')
  await untilText(page, '#verdict', /^varve is healthy$/)
  const otherServer = createServer((request, response) => {
    response.setHeader('content-type', 'text/html').end(`<iframe src="${url}${request.url}"></iframe>`)
  })
  const otherUrl = await listening(t, otherServer)
  const framed = async (target: string): Promise<string> => {
    await page.goto(otherUrl + target)
    return page.frames()[1]?.url() ?? ''
  }
  t.equal(await framed('/healthz'), `${url}/healthz`)
  t.match(await framed('/status'), /^chrome-error:/)
})
