import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type BrowserContextOptions } from 'playwright-core'
import t from 'tap'
import { openPage, startChromium } from '../support/browser.js'
import {
  degradedStatus,
  healthyStatus,
  redStatus,
  serveStatus,
  type StatusFixture
} from '../support/status-fixtures.js'

const browser = startChromium(t)
const looks: Array<[string, BrowserContextOptions]> = [
  ['light', { colorScheme: 'light' }],
  ['dark', { colorScheme: 'dark' }],
  ['phone', { colorScheme: 'light', viewport: { width: 390, height: 844 } }]
]
const levels: Array<[string, StatusFixture]> = [
  ['green', healthyStatus()],
  ['amber', degradedStatus()],
  ['red', redStatus()]
]

t.test('every level is drawn in both themes and on a phone (scripts/screenshots.js renews them)', async t => {
  const folder = process.env['SCREENSHOTS'] ?? t.testdir()
  mkdirSync(folder, { recursive: true })
  for (const [level, status] of levels) {
    for (const [look, options] of looks) {
      const { url } = await serveStatus(t, { status })
      const { page, complaints } = await openPage(t, await browser, `${url}/status`, options)
      await page.waitForSelector('#chart svg')
      t.match(await page.getAttribute('#condition', 'class'), { green: /healthy/, amber: /warning/, red: /bad/ }[level])
      writeFileSync(join(folder, `status-${level}-${look}.png`), await page.screenshot({ fullPage: true }))
      t.same(complaints, [])
    }
  }
})
