import type { Aptos } from '@aptos-labs/ts-sdk'
import t, { type Test } from 'tap'
import { freshSdk } from '../support/sdk/fresh-client.js'
import { clientOf } from '../support/sdk/calls.js'
import { type TestVarve, varveAtSandbox } from '../support/varve.js'

// Uses a client without memory, which does not matter for listings.
const sdk = freshSdk()
// Writes the address in full, as the client demands for all but the first few.
const cafe = `0x${'cafe'.padStart(64, '0')}`

/** A listing, read page by page. */
interface Walked {
  readonly items: unknown[]
  /** Cursor of each page but the first. */
  readonly cursors: string[]
}

type PageOf = (cursor: string | undefined) => Promise<{ items: unknown[], cursor: string | undefined }>

const pageWith = (cursor: string | undefined, limit: number): Parameters<Aptos['getAccountModulesPage']>[0] => ({
  accountAddress: cafe,
  options: { limit, ...(cursor !== undefined && { cursor }) }
})
const listings: Record<string, (aptos: Aptos, limit: number) => PageOf> = {
  modules: (aptos, limit) => async at => {
    const { modules: items, cursor } = await aptos.getAccountModulesPage(pageWith(at, limit))
    return { items, cursor }
  },
  resources: (aptos, limit) => async at => {
    const { resources: items, cursor } = await aptos.getAccountResourcesPage(pageWith(at, limit))
    return { items, cursor }
  }
}

async function walk (pageOf: PageOf, between: () => void = () => {}): Promise<Walked> {
  const walked: Walked = { items: [], cursors: [] }
  for (let at: string | undefined;;) {
    const { items, cursor } = await pageOf(at)
    walked.items.push(...items)
    if (cursor === undefined) return walked
    walked.cursors.push(cursor)
    at = cursor
    between()
  }
}

function clientAt (t: Test, url: string): Aptos {
  t.capture(console, 'info')
  return clientOf(sdk, url)
}

/** A reader that uses only varve's own header names. */
function plainReader (varve: TestVarve, listing: string): PageOf {
  return async cursor => {
    const { headers, body } = await varve.get(
      `/v1/accounts/${cafe}/${listing}?limit=2${cursor === undefined ? '' : `&start=${cursor}`}`
    )
    return { items: JSON.parse(body) as unknown[], cursor: headers['x-node-cursor']?.toString() }
  }
}

for (const [listing, pagesOf] of Object.entries(listings)) {
  t.test(`${listing}: the client reads the upstream's pages by its cursors and header names`, async t => {
    for (const emit of [['node', 'upstream'], ['upstream']] as const) {
      const { sandbox, varve } = await varveAtSandbox(t, {}, { headers: { emit: [...emit] } })
      const truth = await walk(pagesOf(clientAt(t, sandbox.url), 2))
      t.ok(truth.cursors.length > 2)
      for (const times of ['first', 'second']) {
        t.same(await walk(pagesOf(clientAt(t, varve.url), 2)), truth, `the ${times} time, with ${emit.join(' and ')}`)
      }
      t.equal((await walk(plainReader(varve, listing))).items.length, emit.length === 2 ? truth.items.length : 2)
    }
  })

  t.test(`${listing}: with standard names only the client stops at page one, a standard reader not`, async t => {
    const { sandbox, varve } = await varveAtSandbox(t, {}, { headers: { emit: ['node'] } })
    const truth = await walk(pagesOf(clientAt(t, sandbox.url), 2))
    t.same(await walk(pagesOf(clientAt(t, varve.url), 2)), { items: truth.items.slice(0, 2), cursors: [] })
    t.same(await walk(plainReader(varve, listing)), truth)
  })

  t.test(`${listing}: with an upstream of standard names the client reads one page, as directly`, async t => {
    const { sandbox, varve } = await varveAtSandbox(t, { family: 'x-node-' })
    const direct = await walk(pagesOf(clientAt(t, sandbox.url), 2))
    t.same(direct.cursors, [])
    t.same(await walk(pagesOf(clientAt(t, varve.url), 2)), direct)
    t.ok((await walk(plainReader(varve, listing))).items.length > 2)
  })

  t.test(`${listing}: with pages.pinned all pages of a client are of one version as the chain grows`, async t => {
    const { sandbox, varve } = await varveAtSandbox(t, {}, { pages: { pinned: true } })
    const { version } = sandbox.ledger.head
    const { items, cursors } = await walk(pagesOf(clientAt(t, varve.url), 2), () => sandbox.ledger.grow(150))
    t.ok(cursors.length > 1)
    const { body } = await varve.get(`/v1/accounts/${cafe}/${listing}?ledger_version=${version}`)
    t.same(items, JSON.parse(body))
    const requestCount = sandbox.requests.total
    const pageOf = pagesOf(clientAt(t, varve.url), 2)
    const again = await walk(async cursor => await pageOf(cursor ?? cursors[0]))
    t.same(again, { items: items.slice(2), cursors: cursors.slice(1) }, 'the same page again is equal')
    t.equal(sandbox.requests.total, requestCount, 'without an upstream read')
  })
}

t.test('listings that the client collects from several pages are the same as from the upstream', async t => {
  for (const pinned of [false, true]) {
    const { sandbox, varve } = await varveAtSandbox(t, { modulesPage: 3 }, { pages: { pinned } })
    const truth = await clientAt(t, sandbox.url).getAccountModules({ accountAddress: '0x1', options: { limit: 5 } })
    t.same([truth.length, truth[3]], [5, truth[0]], 'the client leaves the cursor out')
    t.same(await clientAt(t, varve.url).getAccountModules({ accountAddress: '0x1', options: { limit: 5 } }), truth)
  }
})
