import fc from 'fast-check'
import t from 'tap'
import { readPosition } from '../../src/api/position.js'
import { type UpstreamResponse } from '../../src/api/upstream-response.js'
import { judge, type StoreVerdict } from '../../src/api/store-verdict.js'
import { type Read } from '../../src/api/read.js'
import { matchEndpoint, readRequest } from '../../src/api/read-request.js'
import { check, seedTitle } from '../support/properties.js'
import { stamps } from '../support/stub-upstream.js'

const bounds = { eventsTtlMs: 7000 }
const path = '/v1/accounts/0x1/events/0x1::block::BlockResource/new_block_events'
const maxU64 = 2n ** 64n - 1n

function read (query: string, accept?: string, eventsDefault = 25): Read {
  const match = matchEndpoint(path + query, 'GET')
  if (match === undefined) throw new Error(query)
  return readRequest(match, { method: 'GET', accept, contentType: undefined, body: Buffer.alloc(0) }, { eventsDefault })
}

interface Event {
  readonly sequence: bigint
  readonly version: bigint
  readonly creation?: string
  readonly account?: string
}

const printed = (events: readonly Event[]): string =>
  JSON.stringify(events.map(({ sequence, version, creation = '3', account = '0x1' }) => ({
    version: String(version),
    guid: { creation_number: creation, account_address: account },
    sequence_number: String(sequence),
    type: '0x1::block::NewBlockEvent',
    data: { height: '1' }
  })))

/** Creates consecutive events, one per version. */
const run = (start: bigint, count: number, version = 100n): Event[] =>
  Array.from({ length: count }, (_, at) => ({ sequence: start + BigInt(at), version: version + BigInt(at) }))

function responseOf (
  body: string,
  headers: Record<string, string> = {},
  change: Partial<UpstreamResponse> = {}
): UpstreamResponse {
  // The stub's window is [10, 1000].
  const all = { 'content-type': 'application/json; charset=utf-8', ...stamps(headers) }
  return {
    status: 200,
    headers: all,
    body: Buffer.from(body),
    rest: undefined,
    isFramed: true,
    stamped: readPosition(all),
    release: undefined,
    ...change
  }
}

const five = read('?start=20&limit=5')
const verdict = (events: readonly Event[], headers: Record<string, string> = {}, pageRead = five): StoreVerdict =>
  judge(pageRead, responseOf(printed(events), headers), bounds)

t.test('a full, contiguous page in its window is stored for the page TTL, with its lowest version', async t => {
  const { page, ...lifetime } = verdict(run(20n, 5)).lifetime ?? {}
  t.strictSame(lifetime, { ttlMs: 7000, block: undefined, lowestVersion: 100n })
  t.match(page, { count: 5, first: 20n, last: 24n, stream: `/v1/accounts/0x${'1'.padStart(64, '0')}/events/3` })
  t.strictSame(verdict(run(20n, 5, 10n)).lifetime?.lowestVersion, 10n, 'its first event at the oldest version')
  t.strictSame(verdict(run(20n, 5, 996n)).lifetime?.lowestVersion, 996n, 'its last event at the head')
  t.strictSame(
    verdict(run(20n, 5).map(event => ({ ...event, version: 500n }))).lifetime?.lowestVersion,
    500n,
    'all of one transaction'
  )
})

t.test('any other page is not stored, each with its reason', async t => {
  const cases: [string, string, Event[]][] = [
    ['the end of a stream, or nothing yet', 'empty_page', []],
    ['fewer events than requested', 'short_page', run(20n, 4)],
    ['one event', 'short_page', run(20n, 1)],
    ['more events than requested', 'gapped_page', run(20n, 6)],
    ['an event missing within', 'gapped_page', [...run(20n, 2), ...run(23n, 3)]],
    ['an event twice', 'gapped_page', [...run(20n, 3), ...run(22n, 2)]],
    ['the wrong way round', 'gapped_page', [{ sequence: 20n, version: 100n }, ...run(21n, 4).reverse()]],
    ['versions that fall', 'gapped_page', [...run(20n, 4, 100n), { sequence: 24n, version: 99n }]],
    [
      'another stream mixed in',
      'gapped_page',
      run(20n, 5).map((event, at) => at === 3 ? { ...event, creation: '4' } : event)
    ],
    [
      'another account mixed in',
      'gapped_page',
      run(20n, 5).map((event, at) => at === 4 ? { ...event, account: '0x2' } : event)
    ],
    ['a full page from before the start', 'gapped_page', run(19n, 5)],
    ['a full page from after the start, as a pruned upstream gives', 'pruned_page', run(21n, 5)],
    ['what is left after the start', 'pruned_page', run(23n, 2)],
    ['a page far away', 'pruned_page', run(2n ** 53n, 5)],
    ['an event from below the oldest version', 'outside_window', run(20n, 5, 9n)],
    ['an event from above the head', 'outside_window', run(20n, 5, 997n)]
  ]
  for (const [title, reason, events] of cases) {
    t.strictSame(verdict(events), { lifetime: undefined, notStored: reason }, title)
  }
  for (
    const body of [
      '',
      '{}',
      'null',
      '[1]',
      '[[]]',
      printed(run(20n, 5)).slice(0, -1),
      printed(run(20n, 5)).replace('"20"', '20')
    ]
  ) {
    t.equal(judge(five, responseOf(body), bounds).notStored, 'unreadable', body.slice(0, 20))
  }
})

t.test('reasons not to store any response also apply to a full page', async t => {
  const full = printed(run(20n, 5))
  const rest = Object.assign((async function* () {})(), { destroy: () => {} })
  const cases: [string, UpstreamResponse][] = [
    ['vetoed', responseOf(full, { 'cache-control': 'no-store' })],
    ['vetoed', responseOf(full, { vary: 'Cookie' })],
    ['too_large', responseOf(full, {}, { rest })],
    ['incomplete', responseOf(full, {}, { isFramed: false })],
    ['no_position', responseOf(full, {}, { stamped: undefined })],
    ...[500, 503, 410, 404, 429, 206].map((
      status
    ): [string, UpstreamResponse] => ['status', responseOf(full, {}, { status })])
  ]
  for (const [reason, response] of cases) {
    t.equal(judge(five, response, bounds).notStored, reason, `${reason} ${response.status}`)
  }
  t.ok(
    judge(five, { ...responseOf(full, { 'cache-control': 'no-store' }), ignoresCacheControl: true }, bounds).lifetime
  )
})

t.test('starts, sequence numbers and versions are exact over all of u64', async t => {
  const big = 2n ** 53n
  const window = { 'x-aptos-ledger-oldest-version': String(big + 1n), 'x-aptos-ledger-version': String(big + 9n) }
  const at = (start: bigint, limit: number): Read => read(`?start=${start}&limit=${limit}`)
  t.equal(verdict(run(big, 2, big + 1n), window, at(big, 2)).lifetime?.lowestVersion, big + 1n)
  t.equal(
    verdict(run(big, 2, big), window, at(big, 2)).notStored,
    'outside_window',
    'a double would equal the oldest version'
  )
  t.equal(verdict(run(big, 2, big + 9n), window, at(big, 2)).notStored, 'outside_window', 'or the head')
  t.equal(verdict(run(big + 1n, 2, big + 1n), window, at(big, 2)).notStored, 'pruned_page', 'or the start')
  t.equal(verdict(run(big, 2, big + 1n), window, at(big + 1n, 2)).notStored, 'gapped_page')
  t.equal(
    verdict([{ sequence: big, version: big + 1n }, { sequence: big, version: big + 1n }], window, at(big, 2)).notStored,
    'gapped_page'
  )
  t.ok(verdict(run(maxU64, 1), {}, at(maxU64, 1)).lifetime, 'the highest number')
  t.equal(verdict(run(maxU64, 1), {}, at(maxU64, 2)).notStored, 'short_page')
  t.equal(
    verdict([...run(maxU64, 1), { sequence: 0n, version: 101n }], {}, at(maxU64, 2)).notStored,
    'gapped_page',
    'nothing follows it'
  )
})

t.test('a page without a limit is judged by the configured default limit', async t => {
  t.same(read('?start=20').page, { start: 20n, limit: 25n })
  t.same(read('?start=20', undefined, 40).page, { start: 20n, limit: 40n })
  t.ok(verdict(run(20n, 25), {}, read('?start=20')).lifetime)
  t.equal(verdict(run(20n, 25), {}, read('?start=20', undefined, 40)).notStored, 'short_page')
  t.equal(verdict(run(20n, 40), {}, read('?start=20')).notStored, 'gapped_page')
  t.equal(verdict([], {}, read('?start=20&limit=0')).notStored, 'gapped_page', 'an empty page proves nothing')
})

t.test('newest events, pages in BCS and other representations are not stored', async t => {
  for (
    const pageRead of [
      read(''),
      read('?limit=5'),
      read('?start=20&limit=5', 'application/x-bcs'),
      read('?start=20', 'application/x-bcs')
    ]
  ) {
    t.equal(pageRead.page, undefined)
    t.equal(verdict(run(20n, 5), {}, pageRead).notStored, 'outside_window')
  }
})

t.test(`a page is stored only if it is just the requested events within the window (${seedTitle})`, async () => {
  const changed = fc.constantFrom('none', 'none', 'drop', 'repeat', 'swap', 'guid', 'shift', 'add', 'version')
  check(
    fc.property(
      fc.bigInt(0n, maxU64 - 40n),
      fc.integer({ min: 1, max: 12 }),
      fc.bigInt(0n, 1100n),
      fc.array(fc.bigInt(0n, 40n), { minLength: 12, maxLength: 12 }),
      changed,
      fc.nat(),
      (start, limit, first, steps, change, place) => {
        let version = first
        const events: Event[] = run(start, limit).map((event, at) => {
          version += steps[at] ?? 0n
          return { ...event, version }
        })
        const at = place % events.length
        const event = events[at] ?? { sequence: 0n, version: 0n }
        if (change === 'drop') events.splice(at, 1)
        if (change === 'repeat') events.splice(at, 0, event)
        if (change === 'swap') events.reverse()
        if (change === 'guid') {
          events[at] = { ...event, account: '0x7' }
        }
        if (change === 'shift') {
          events.forEach((one, index) => {
            events[index] = { ...one, sequence: one.sequence + 1n }
          })
        }
        if (change === 'add') events.push({ sequence: start + BigInt(limit), version })
        if (change === 'version') events[at] = { ...event, version: event.version - 1n < 0n ? 0n : event.version - 1n }
        const isWhole = events.length === limit &&
          events.every(({ sequence, version: own, account, creation }, index) =>
            sequence === start + BigInt(index) && own >= 10n && own <= 1000n &&
            own >= (events[index - 1]?.version ?? 0n) && account === events[0]?.account &&
            creation === events[0]?.creation
          )
        return (verdict(events, {}, read(`?start=${start}&limit=${limit}`)).lifetime !== undefined) === isWhole
      }
    ),
    400
  )
})
