import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { type BrowserContextOptions, type Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { type RecentTold } from '../../src/metrics/recent.js'
import { outcomeNames } from '../../src/proxy/outcomes.js'
import { readable, type Unreadable } from '../support/contrast.js'
import { look, type Looked, startChromium } from '../support/browser.js'
import { ask } from '../support/client.js'
import { freePort } from '../support/free-port.js'
import { startRedis } from '../support/redis-server.js'
import { nodeOf, written } from '../support/replicas.js'
import { smallPng } from '../support/small-png.js'
import { degradedTold, recentOf, telling, toldNode, wellTold } from '../support/told-status.js'
import { until } from '../support/until.js'
import { varveAt } from '../support/varve.js'

const modules = '/v1/accounts/0x1/modules?limit=1'
const browser = startChromium(t)

// What a browser may hear of an operator's varve, each by what it is an example of.
const hostileTexts = [
  '<script>alert(1)</script><img src=x onerror=alert(2)>',
  '\u202Eneddih\u202D \u0627\u0644\u0639\u0631\u0628\u064A\u0629',
  'x'.repeat(5000),
  'a\u0301'.repeat(3000),
  '😀'.repeat(2500),
  '"><svg onload=alert(3)>',
  '{{7*7}}',
  '\u0000\u001b[31m\r\n\t'
]
const zero = recentOf(121, () => 0)
const unheard = {
  state: 'unknown',
  release: undefined,
  version: undefined,
  oldestVersion: undefined,
  lagVersions: undefined,
  latencyMs: undefined,
  p95Ms: undefined,
  underWay: 0
}
const hugest = '18446744073709551615'

/** Everything that the page may have to show, by its name. */
const states: Record<string, object> = {
  well: wellTold(),
  degraded: degradedTold(),
  'no position yet': wellTold({
    ready: false,
    degraded: ['no node has been reached yet', 'archive has not been heard of yet'],
    chain: undefined,
    position: undefined,
    upstreams: [toldNode('archive', unheard)],
    recent: recentOf(1, () => 0)
  }),
  'no worker answers': {
    ready: false,
    degraded: ['0 of 2 workers are ready'],
    upstreams: [],
    recent: zero,
    workers: []
  },
  sandbox: wellTold({
    varve: { version: '0.1.0', mode: 'serve', isSandbox: true },
    upstreams: [toldNode('sandbox')],
    tiers: { memory: { entries: 0, bytes: 0, maxBytes: 268_435_456 }, redis: { state: 'off' } }
  }),
  observing: wellTold({ varve: { version: '0.1.0', mode: 'observe', isSandbox: false } }),
  'no traffic': wellTold({ recent: zero }),
  'moving reads alone': wellTold({ recent: recentOf(30, name => name === 'forwarded' ? 3 : 0) }),
  'one request': wellTold({ recent: recentOf(121, (name, at) => name === 'miss' && at === 60 ? 1 : 0) }),
  workers: wellTold({
    workers: [{ pid: 4011, ready: true, degraded: [], version: '2894117203' }, {
      pid: 4012,
      ready: false,
      degraded: ['stopping', 'x'],
      version: undefined
    }]
  }),
  'twenty nodes': wellTold({
    upstreams: Array.from(
      { length: 20 },
      (_, at) => toldNode(`node-${at + 1}`, at % 3 === 0 ? { state: 'down', reason: 'refused', circuit: 'open' } : {})
    )
  }),
  'numbers as large as they get': wellTold({
    position: {
      version: hugest,
      oldestVersion: '18446744073709551614',
      blockHeight: hugest,
      oldestBlockHeight: hugest,
      timestampUsec: hugest,
      ageMs: null
    },
    upstreams: [
      toldNode('node-a', {
        version: hugest,
        oldestVersion: '0',
        lagVersions: hugest,
        latencyMs: 1e9,
        p95Ms: 1e9,
        underWay: 1e6,
        waiting: 1e6
      })
    ],
    tiers: { memory: { entries: 1e12, bytes: 1e15, maxBytes: 1e15 }, redis: { state: 'up' } },
    recent: recentOf(121, () => 1e12)
  }),
  hostile: wellTold({
    degraded: hostileTexts,
    varve: { version: hostileTexts[0], mode: 'serve', isSandbox: false },
    chain: { id: hostileTexts[0], generation: hostileTexts[1] },
    position: {
      version: hostileTexts[0],
      oldestVersion: hostileTexts[2],
      blockHeight: hostileTexts[1],
      oldestBlockHeight: '-1',
      timestampUsec: hostileTexts[0],
      ageMs: 'x'
    },
    upstreams: hostileTexts.map(text =>
      toldNode(text, {
        state: text,
        reason: text,
        release: text,
        version: text,
        oldestVersion: text,
        lagVersions: text,
        latencyMs: text,
        p95Ms: text,
        underWay: text,
        waiting: text
      })
    ),
    tiers: {
      memory: { entries: hostileTexts[0], bytes: null, maxBytes: hostileTexts[1] },
      redis: { state: hostileTexts[0] }
    },
    workers: hostileTexts.map(text => ({ pid: text, ready: true, degraded: [], version: text }))
  })
}

/** The page of a varve that tells what the test likes. */
async function pageTelling (
  t: Test,
  told: object | Error,
  options: BrowserContextOptions = {}
): Promise<Looked & { setting: { told: object | Error }, url: string }> {
  const setting = { told }
  const { url } = await telling(t, setting)
  const looked = await look(t, await browser, `${url}/status`, options)
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

/** Nothing was complained of, and nobody else was asked for anything. */
function isQuiet (t: Test, { asked, complaints }: Looked, url: string): void {
  t.same(complaints, [])
  t.ok(asked.length > 5)
  t.same(asked.filter(address => !address.startsWith(`${url}/status`) && !address.startsWith('data:')), [])
}

t.test('the page of a sandbox has a banner, and no other page has it', async t => {
  const { page, setting } = await pageTelling(
    t,
    wellTold({ degraded: ['sandbox'], varve: { version: '0.1.0', mode: 'serve', isSandbox: true } })
  )
  await untilText(page, '#sandbox', /^Sandbox\. All data is made up: this varve serves its embedded node/)
  await untilText(page, '#complaints', /^sandbox$/)
  setting.told = wellTold()
  await until(async () => await page.locator('#sandbox').isHidden(), 'the banner is gone')
})

t.test('the page shows what happened, goes on by itself when more happens, and says so when a node stops, when Redis stops, when varve stops and when it is back', async t => {
  const redis = await startRedis(t)
  const nodes = [await nodeOf(t, { prunedBlocks: 0 }), await nodeOf(t, { prunedBlocks: 0 })]
  const admin = `127.0.0.1:${await freePort()}`
  const upstreams = nodes.map(({ url }, at) => ({ name: `n${at + 1}`, url, timeoutMs: 1000 })) as never
  const change = { upstreams, head: { pollMs: 100 }, cache: { redis: { url: `redis://127.0.0.1:${redis.port}` } } }
  const other = await varveAt(t, '', change)
  const varve = await varveAt(t, '', { ...change, admin: { listen: admin } })
  const read = async (of: typeof varve, version: number | string): Promise<void> => {
    await of.get(`${modules}&ledger_version=${version}`)
  }
  await until(
    async () =>
      /uri-miss.*stored/.test(String((await other.get(`${modules}&ledger_version=900`)).headers['cache-status'])),
    'it keeps'
  )
  await written(other, 1)
  let version = 900
  await until(async () => {
    await read(varve, version++)
    await read(other, version)
    await written(other, version - 899)
    return (await varve.metric('varve_requests_total{endpoint="account_modules",outcome="hit_redis",status="200"}') ??
      0) > 0
  }, 'what the other has read is found')
  for (const version of [500, 501, 502, 500, 500, 501, 'x']) await read(varve, version)
  await varve.get(modules)

  const looked = await look(t, await browser, `http://${admin}/status`)
  const { page } = looked
  await untilText(page, '#verdict', /^All is well$/)
  const counted = async (outcome: string): Promise<number> =>
    await varve.metric(`varve_requests_total{endpoint="account_modules",outcome="${outcome}",status="200"}`) ?? 0
  const [memory, shared, missed] = [await counted('hit_memory'), await counted('hit_redis'), await counted('miss')]
  t.ok(memory >= 3 && shared >= 1 && missed >= 3)
  const rate = Math.floor((memory + shared) / (memory + shared + missed) * 1000) / 10
  t.equal(await textOf(page, '#hit-rate'), `${rate} %`)
  t.equal(await textOf(page, '#hit-note'), `${memory + shared} of ${memory + shared + missed} reads looked up`)
  const legend = async (): Promise<string[]> =>
    await page.evaluate(
      '[...document.querySelectorAll("#legend li")].map(({ children }) => children[1].innerText + " " + ' +
        'children[2].innerText)'
    )
  t.same(await legend(), [
    `From memory ${memory}`,
    `From Redis ${shared}`,
    'Joined another’s fetch 0',
    `Read from a node ${missed}`,
    'Passed on to a node 1',
    'Preflights 0',
    'Gone, 410 0',
    'Rejected, 4xx 1',
    'Rate limited, 429 0',
    'Unavailable, 5xx 0'
  ])
  t.equal(await textOf(page, '#version'), String(nodes[0]?.ledger.head.version).replace(/\B(?=(\d{3})+$)/g, ','))
  t.equal(await textOf(page, '#node-count'), '2 of 2')
  t.match(await textOf(page, '#tiers'), /Redis answers/)

  for (let nth = 0; nth < 5; nth++) await read(varve, 502)
  await until(async () => (await legend())[0] === `From memory ${memory + 5}`, 'the page has gone on')
  nodes[0]?.ledger.grow(1000)
  const grown = String(nodes[0]?.ledger.head.version).replace(/\B(?=(\d{3})+$)/g, ',')
  await until(async () => await textOf(page, '#version') === grown, 'and so has the position')
  t.match(await textOf(page, '#nodes tbody tr:nth-child(2)'), /versions? n2|n2.* answers .*versions/)

  await nodes[1]?.close()
  await untilText(page, '#nodes tbody tr:nth-child(2)', /n2 .*does not answer refused|n2 .*does not answer/)
  await untilText(page, '#verdict', /^varve answers, and 1 thing is not as it should be$/)
  await untilText(page, '#complaints', /n2 does not answer/)
  t.equal(await textOf(page, '#node-count'), '1 of 2')
  await redis.kill()
  await untilText(page, '#complaints', /Redis does not answer/)
  await untilText(page, '#tiers', /Redis does not answer/)
  isQuiet(t, looked, `http://${admin}`)

  await varve.stop({ drainMs: 0 })
  await untilText(page, '#verdict', /^varve does not answer since \d\d:\d\d:\d\d: it cannot be reached$/)
  await untilText(page, '#silence', /^For .*seconds?\. What is shown below is from before\./)
  t.equal(await page.title(), 'varve: no answer')
  for (const width of [360, 640, 1280]) {
    await page.setViewportSize({ width, height: 900 })
    t.ok(
      ((await page.locator('#condition').boundingBox())?.height ?? Infinity) < (width === 360 ? 200 : 120),
      `what is said of it has room at ${width}`
    )
  }
  t.equal(await textOf(page, '#version'), grown, 'what was known is still there')
  await varveAt(t, '', { upstreams: [{ name: 'n1', url: nodes[0]?.url ?? '' }] as never, admin: { listen: admin } })
  await untilText(page, '#verdict', /^All is well$/)
  t.equal(await page.locator('#silence').isVisible(), false)
  t.equal(await textOf(page, '#hit-rate'), 'no reads yet')
  await untilText(page, '#nodes tbody', /^n1 .* answers/)
})

t.test('what was asked before anybody looked stands at its time', async t => {
  const node = await nodeOf(t)
  const varve = await varveAt(t, node.url)
  for (let nth = 0; nth < 7; nth++) await varve.get(modules)
  // Two steps and what a look is late by at most; nobody looks meanwhile.
  await pause(15_500)
  await varve.get(modules)
  const { page } = await look(t, await browser, `${varve.adminUrl}/status`)
  await page.waitForSelector('#chart svg')
  const { recent } = JSON.parse((await ask(varve.adminUrl, '/status.json')).body) as { recent: RecentTold }
  const steps = recent.outcomes.forwarded
  const last = steps.lastIndexOf(1)
  const before = steps.slice(0, last - 1)
  // The seven may lie on both sides of where one step ends.
  t.equal(before.reduce((sum, count) => sum + count, 0), 7, steps.join())
  t.same(steps.slice(last - 1).filter(count => count > 0), [1], steps.join())
  t.equal(
    (String(await page.getAttribute('#chart path.forwarded', 'd')).match(/M/g) ?? []).length,
    steps.filter(count => count > 0).length,
    'and is drawn as a bar for each'
  )
})

t.test('whatever varve may tell, the page says it in words, without a number that is none, and nothing of it runs or is asked for', async t => {
  const looked = await pageTelling(t, states['well'] ?? {})
  const { page, setting, url } = looked
  await page.exposeFunction('alert', () => {
    looked.complaints.push('something ran')
  })
  const expected: Record<string, Array<[string, RegExp]>> = {
    well: [
      ['#verdict', /^All is well$/],
      ['#hit-rate', /^88\.7 %$/],
      ['#rate-note', /^in the last minute; 345,294 in the last 10 minutes$/],
      [
        '#history',
        /Pruned requests 1,911 requests in the last 10 minutes Answered all the same 1,812 .*Told that it is gone 99 96 by varve, 3 by a node/
      ],
      ['#tiers', /Memory 142 MB of 256 MB 61,204 answers; 55\.4 % full Redis answers/],
      ['#varve', /varve 0\.1\.0 .*serves .*Newest block 2025-06-01 10:15:01 UTC Node releases 3f9c1b7a5e2d4f60891c7b3a/]
    ],
    degraded: [
      ['#verdict', /^varve answers, and 4 things are not as they should be$/],
      ['#complaints', /node-c is not asked: it is of another chain/],
      [
        '#nodes tbody tr:nth-child(2)',
        /does not answer timeout; circuit open: asked only where nobody else is left .*27,192 versions/
      ],
      ['#nodes tbody tr:nth-child(3)', /resting it has answered 429/],
      ['#nodes tbody tr:nth-child(4)', /not asked it is of another chain unknown/],
      ['#nodes tbody tr:nth-child(5)', /release unknown .*not heard of yet unknown/],
      ['#node-note', /^node-a does not answer, node-b resting, 2 more$/],
      ['#tiers', /Redis does not answer reads go on without it/]
    ],
    'no position yet': [
      ['#verdict', /^varve cannot answer reads yet$/],
      ['#version', /^not known yet$/],
      ['#hit-rate', /^no reads yet$/],
      ['#hit-note', /^no requests since it began, 5 seconds ago$/],
      ['#history', /Oldest version unknown/]
    ],
    'no worker answers': [['#verdict', /^varve cannot answer reads yet$/], ['#node-count', /^none$/], [
      '#no-nodes',
      /./
    ], ['#tiers', /unknown/]],
    sandbox: [['#node-note', /^the embedded sandbox node, whose chain is made up$/], [
      '#tiers',
      /Memory 0 bytes of 256 MB 0 answers; 0 % full Redis off/
    ]],
    observing: [['#about', /observing/], ['#hit-note', /^as it would be: /], ['#traffic-note', /only observes/], [
      '#varve',
      /Mode observes/
    ]],
    'no traffic': [['#hit-rate', /^no reads yet$/], ['#rate', /^0$/], ['#chart', /no requests/], [
      '#traffic-note',
      /^No requests in the last 10 minutes/
    ]],
    'moving reads alone': [['#hit-rate', /^none to tell$/], ['#hit-note', /^nothing was asked that is looked up$/], [
      '#traffic-note',
      /^90 requests since it began, 2 minutes ago/
    ]],
    'one request': [['#hit-rate', /^0 %$/], ['#rate', /^0$/], ['#traffic-note', /^1 request in/]],
    workers: [['#workers', /4011 ready 2,894,117,203 .*4012 not ready, 2 complaints unknown/]],
    'twenty nodes': [['#node-count', /^13 of 20$/], [
      '#node-note',
      /^node-1 does not answer, node-4 does not answer, 5 more$/
    ], ['#nodes tbody tr:nth-child(20)', /node-20/]],
    'numbers as large as they get': [
      ['#version', /^18,446,744,073,709,551,615$/],
      ['#version-note', /by another varve/],
      ['#nodes', /0 – 18,446,744,073,709,551,615 18,446,744,073,709,551,616 versions|0 – 18,446,744,073,709,551,615/],
      ['#history', /18,446,744,073,709,551,614 .*2 versions/],
      ['#varve', /Newest block unknown/]
    ],
    hostile: [
      ['#complaints', /<script>alert\(1\)<\/script><img src=x onerror=alert\(2\)>/],
      ['#nodes', /"><svg onload=alert\(3\)>/],
      ['#varve', /varve <script>/],
      ['#version', /^unknown$/]
    ]
  }
  t.same(Object.keys(expected).sort(), Object.keys(states).sort())
  for (const [state, said] of Object.entries(expected)) {
    setting.told = { ...states[state], nth: state }
    await page.reload()
    await page.waitForSelector('#told:not([hidden])')
    for (const [selector, words] of said) await untilText(page, selector, words)
    const all = await textOf(page, 'body')
    t.notMatch(all, /NaN|undefined|null|Infinity|\[object/, state)
    t.equal(await page.locator('main script, main img, main [onload], main [onerror]').count(), 0, state)
    t.ok(all.length < 12_000, `${state}: ${all.length} characters`)
    t.ok(await page.evaluate('document.querySelectorAll("#chart path").length') === outcomeNames.length, state)
  }
  isQuiet(t, looked, url)
})

t.test('what is not what varve says is said in words too, and does not end the looking', async t => {
  const { page, setting } = await pageTelling(t, new Error('boom'))
  await untilText(page, '#verdict', /^varve does not answer since [\d:]+: it answers with status 500$/)
  t.equal(await page.locator('#told').isVisible(), false, 'nothing is shown that nobody has told')
  setting.told = { ready: true, upstreams: 'none' }
  await untilText(page, '#verdict', /^varve does not answer since/)
  setting.told = wellTold()
  await untilText(page, '#verdict', /^All is well$/)
})

t.test('every text can be read: in light and dark, whatever the state, each has 4.5 times the contrast that it needs from what is behind it', async t => {
  for (const colorScheme of ['light', 'dark'] as const) {
    const { page, setting } = await pageTelling(t, wellTold(), { colorScheme })
    for (
      const [state, width] of [['well', 1280], ['degraded', 1280], ['degraded', 360], ['no position yet', 1280], [
        'no traffic',
        1280
      ], ['workers', 1280]] as const
    ) {
      setting.told = states[state] ?? {}
      await page.setViewportSize({ width, height: 900 })
      await page.reload()
      await page.waitForSelector('#chart svg')
      await page.locator('summary').click()
      const { texts, unreadable } = await page.evaluate(readable) as { texts: number, unreadable: Unreadable[] }
      t.ok(texts > 60, `${texts} texts`)
      t.same(unreadable, [], `${colorScheme} ${state} ${width}`)
    }
    await page.evaluate('document.documentElement.style.setProperty("--muted", "#777")')
    t.not(
      (await page.evaluate(readable) as { unreadable: Unreadable[] }).unreadable.length,
      0,
      'and what cannot be read is found'
    )
  }
})

t.test('nothing has to be scrolled sideways: on a phone, on a desk, and with the text at twice its size', async t => {
  const { page, setting } = await pageTelling(t, wellTold())
  const scrolls = async (): Promise<unknown> =>
    await page.evaluate(`({
    page: document.documentElement.scrollWidth > innerWidth,
    cut: [...document.querySelectorAll('main *')].filter(element => !element.closest('.scrolls, .unseen, thead, svg, [hidden]') && element.getBoundingClientRect().right > innerWidth + 1).map(element => element.id || element.className || element.tagName)
  })`)
  for (const [state, told] of Object.entries(states)) {
    setting.told = told
    for (const [width, zoom] of [[360, 1], [360, 2], [640, 1], [768, 1], [1280, 1], [1280, 2], [2560, 1]] as const) {
      await page.setViewportSize({ width, height: 900 })
      await page.reload()
      await page.waitForSelector('#told:not([hidden])')
      await page.evaluate(`document.documentElement.style.fontSize = '${zoom * 100}%'`)
      t.same(await scrolls(), { page: false, cut: [] }, `${state} at ${width}, text ${zoom * 100} %`)
    }
  }
})

t.test('the keyboard reaches everything that can be used, in the order in which it is read, and one sees where it is', async t => {
  const { page } = await pageTelling(t, wellTold())
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
  t.same(await walk('Tab', 6), [
    'Skip to the content',
    'The same as a table',
    'status.json',
    'readyz',
    'healthz',
    'metrics'
  ])
  t.same(await walk('Shift+Tab', 4), ['healthz', 'readyz', 'status.json', 'The same as a table'])
  await page.keyboard.press('Enter')
  t.equal(await page.locator('#minutes').isVisible(), true)
  t.equal((await page.locator('#minutes tbody tr').allInnerTexts()).length, 10)
  t.match(await walk('Tab', 2), [/^When/, 'status.json'])
  // The page goes on, and takes nobody's place away.
  await page.waitForResponse(/status\.json/)
  await page.waitForResponse(/status\.json/)
  t.equal(await focused(), 'status.json')
  await page.reload()
  await page.waitForSelector('#told:not([hidden])')
  await walk('Tab', 1)
  await page.keyboard.press('Enter')
  t.equal(await page.evaluate('document.activeElement.id'), 'main', 'who skips is at the content')
})

interface AxNode {
  readonly nodeId: string
  readonly parentId?: string
  readonly ignored: boolean
  readonly role?: { value: string }
  readonly name?: { value: string }
  readonly properties?: Array<{ name: string, value: { value: unknown } }>
}

t.test('who has the page read out finds its parts by name, the headings in order, the tables with their heads, and the drawing in words', async t => {
  const { page, context, setting } = await pageTelling(t, degradedTold())
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
    t.same(named(nodes, 'navigation'), ['The same for programs'])
    t.same(named(nodes, 'heading'), [
      'varve',
      'Condition',
      'At a glance',
      'Requests by outcome',
      'Nodes',
      'History and pruning',
      'What is kept',
      'This varve'
    ])
    t.same(
      nodes.filter(({ role }) => role?.value === 'heading').map(({ properties }) =>
        properties?.find(({ name }) => name === 'level')?.value.value
      ),
      [1, 2, 2, 2, 2, 2, 2, 2]
    )
    t.same(named(nodes, 'region').filter(name => name === ''), [])
    t.ok(named(nodes, 'region').includes('Nodes'))
    t.match(
      named(nodes, 'image').join() + named(nodes, 'img').join(),
      /^Requests per second by outcome over ten minutes\. From memory: 255,267, From Redis: [\d,]+, /
    )
    t.same(named(nodes, 'table'), ['Nodes'], `at ${width}`)
    t.same(named(nodes, 'columnheader'), ['Node', 'State', 'History', 'Behind', 'Answers in', 'Asked now'])
    t.equal(named(nodes, 'rowheader').length, 5)
    t.equal(named(nodes, 'row').length, 6)
    for (const role of ['link', 'button', 'DisclosureTriangle', 'textbox', 'columnheader', 'rowheader']) {
      t.same(named(nodes, role).filter(name => name.trim() === ''), [], `each ${role} has a name`)
    }
    t.equal(named(nodes, 'link').length, 5)
    t.equal(named(nodes, 'status').length, 1)
  }
  t.equal(await page.getAttribute('html', 'lang'), 'en')

  // Only what is amiss is announced, and only when that changes.
  await page.evaluate(
    'globalThis.announced = []; new MutationObserver(() => { ' +
      'announced.push(document.querySelector("[role=status]").innerText) ' +
      '}).observe(document.querySelector("[role=status]"), { childList: true, characterData: true, subtree: ' +
      'true, attributes: true })'
  )
  setting.told = { ...degradedTold(), recent: recentOf(121, () => 99) }
  await untilText(page, '#traffic-note', /^119,790 requests/)
  await page.waitForResponse(/status\.json/)
  t.same(await page.evaluate('announced'), [])
  setting.told = wellTold()
  await untilText(page, '#verdict', /^All is well$/)
  t.match(await page.evaluate('announced'), [/^All is well\s*$/])
  t.equal(await page.locator('[aria-live], [role=alert], [role=log], [role=timer]').count(), 0, 'and nothing else is')
})

t.test('it asks while somebody looks, and not while nobody does', async t => {
  const { page, asked, setting } = await pageTelling(t, wellTold())
  const hide = async (isHidden: boolean): Promise<void> => {
    await page.evaluate(
      `Object.defineProperty(document, 'hidden', { value: ${isHidden}, configurable: true }); ` +
        'document.dispatchEvent(new Event(\'visibilitychange\'))'
    )
  }
  const looks = (): number => asked.filter(address => address.endsWith('status.json')).length
  await page.waitForResponse(/status\.json/)
  await hide(true)
  const before = looks()
  // As long as two looks and a half would be apart.
  await page.waitForTimeout(5000)
  t.ok(looks() <= before + 1, `${looks() - before} more`)
  setting.told = degradedTold()
  await hide(false)
  await untilText(page, '#verdict', /^varve answers/)
  const again = looks()
  await page.waitForResponse(/status\.json/)
  t.ok(looks() > again)
})

t.test('who wants no motion has none', async t => {
  const moves = 'getComputedStyle(document.querySelector("#nodes svg .part")).transitionDuration'
  t.equal(await (await pageTelling(t, wellTold(), { reducedMotion: 'reduce' })).page.evaluate(moves), '0s')
  t.not(await (await pageTelling(t, wellTold(), { reducedMotion: 'no-preference' })).page.evaluate(moves), '0s')
})

t.test('each share in the key of the drawing has a line and no more, the smallest too', async t => {
  const recent = recentOf(121, (name, at) => name === 'hit_memory' ? 1000 : name === 'miss' && at === 60 ? 1 : 0)
  for (const width of [320, 768, 1920]) {
    const { page } = await pageTelling(t, wellTold({ recent }), { viewport: { width, height: 900 } })
    await untilText(page, '#legend', /Read from a node 1 < 0\.1 %/)
    const lines = await page.evaluate(
      '[...document.querySelectorAll("#legend .note")].map(note => { const range = document.createRange(); ' +
        'range.selectNodeContents(note); return range.getClientRects().length })'
    )
    t.same(lines, outcomeNames.map(() => 1), `at ${width}`)
    t.same(
      await page.evaluate(
        '[...document.querySelectorAll("#legend .note")].filter(note => note.scrollWidth > note.clientWidth).length'
      ),
      0,
      `within its room at ${width}`
    )
  }
})

t.test('on paper the key of the drawing has its colours, and no panel is cut in two where it need not be', async t => {
  const { page } = await pageTelling(t, wellTold())
  await page.emulateMedia({ media: 'print' })
  const styles = async (selector: string, name: string): Promise<unknown> =>
    await page.evaluate(
      `[...new Set([...document.querySelectorAll(${
        JSON.stringify(selector)
      })].map(element => getComputedStyle(element).getPropertyValue(${JSON.stringify(name)})))]`
    )
  t.same(await styles('#legend .swatch', 'print-color-adjust'), ['exact'])
  t.same(await styles('.panel', 'break-inside'), ['avoid'])
})

t.test('without scripts it says where the same is told', async t => {
  const { url } = await telling(t, { told: wellTold() })
  const { page, complaints } = await look(t, await browser, `${url}/status`, { javaScriptEnabled: false })
  t.match(
    await textOf(page, 'main'),
    /^This page is drawn by a script, and scripts are switched off here\. status\.json tells the same as text/
  )
  t.equal(await page.locator('main a[href="status.json"]').isVisible(), true)
  t.same(complaints.filter(text => !/JavaScript/i.test(text)), [])
})

t.test('it works behind whoever stands before it with a prefix of its own, and in nobody\'s frame', async t => {
  const { url } = await telling(t, { told: wellTold() })
  const context = await (await browser).newContext()
  t.teardown(async () => {
    await context.close()
  })
  const page = await context.newPage()
  await page.route('http://ops.example/**', async route => {
    const { pathname } = new URL(route.request().url())
    const answer = await fetch(url + pathname.replace(/^\/varve/, ''))
    await route.fulfill({
      status: answer.status,
      headers: Object.fromEntries(answer.headers),
      body: Buffer.from(await answer.arrayBuffer())
    })
  })
  await page.goto('http://ops.example/varve/status')
  await untilText(page, '#verdict', /^All is well$/)
  const stranger = createServer((request, response) => {
    response.setHeader('content-type', 'text/html').end(`<iframe src="${url}${request.url}"></iframe>`)
  }).listen(0, '127.0.0.1')
  await once(stranger, 'listening')
  t.teardown(() => {
    stranger.close()
  })
  const framed = async (target: string): Promise<string> => {
    await page.goto(`http://127.0.0.1:${(stranger.address() as AddressInfo).port}${target}`)
    return page.frames()[1]?.url() ?? ''
  }
  t.equal(await framed('/healthz'), `${url}/healthz`)
  t.match(await framed('/status'), /^chrome-error:/)
})

t.test('the pictures of docs can be drawn: with SCREENSHOTS=docs/images they are kept', async t => {
  const pictures: Array<[string, object, BrowserContextOptions]> = [
    ['light', wellTold(), { colorScheme: 'light' }],
    ['dark', wellTold(), { colorScheme: 'dark' }],
    ['phone', wellTold(), { colorScheme: 'light', viewport: { width: 390, height: 844 } }],
    ['degraded', degradedTold(), { colorScheme: 'light' }]
  ]
  const folder = process.env['SCREENSHOTS'] ?? t.testdir()
  mkdirSync(folder, { recursive: true })
  for (const [name, told, options] of pictures) {
    const { page } = await pageTelling(t, told, options)
    await page.waitForSelector('#chart svg')
    const png = smallPng(await page.screenshot({ fullPage: true }))
    writeFileSync(join(folder, `status-${name}.png`), png)
    t.ok(png.length > 20_000 && png.length < 150_000, `${name}: ${png.length} bytes`)
  }
})
