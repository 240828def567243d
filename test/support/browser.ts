import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { getuid } from 'node:process'
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { type Test } from 'tap'

/** A page in a real browser, with all its requests and complaints. */
export interface OpenedPage {
  readonly page: Page
  readonly context: BrowserContext
  /** Requested addresses. */
  readonly requestedUrls: string[]
  /** Console messages from warnings up, exceptions, and violations of its content security policy. */
  readonly complaints: string[]
}

/** Starts the Chromium on PATH with a profile of its own, which is removed at the end of the test. */
export async function startChromium (t: Test): Promise<Browser> {
  const executablePath = (process.env['PATH'] ?? '').split(delimiter).map(folder => join(folder, 'chromium')).find(
    existsSync
  )
  if (executablePath === undefined) throw new Error('there is no chromium on PATH')
  // Disables Chromium's sandbox, which refuses to run as root, as tests in a container do.
  const browser = await chromium.launch({
    executablePath,
    args: ['--disable-lcd-text', ...(getuid?.() === 0 ? ['--no-sandbox'] : [])]
  })
  t.teardown(async () => {
    await browser.close()
  })
  return browser
}

/** Opens an address as a person would. */
export async function openPage (
  t: Test,
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {}
): Promise<OpenedPage> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options })
  t.teardown(async () => {
    await context.close()
  })
  const page = await context.newPage()
  const requestedUrls: string[] = []
  const complaints: string[] = []
  page.on('request', request => {
    requestedUrls.push(request.url())
  })
  page.on('console', message => {
    if (['error', 'warning'].includes(message.type())) complaints.push(message.text())
  })
  page.on('pageerror', error => {
    complaints.push(String(error))
  })
  await page.addInitScript(
    'document.addEventListener("securitypolicyviolation", event => { console.error("forbidden: " + ' +
      'event.violatedDirective + " " + event.blockedURI) })'
  )
  await page.goto(url)
  return { page, context, requestedUrls, complaints }
}
