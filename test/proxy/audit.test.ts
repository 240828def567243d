import { type IncomingMessage, type ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import { Space } from '../../src/chain/space.js'
import { type Entry, makeEntry } from '../../src/cache/entry.js'
import { serveFromMemory, serveRead } from '../../src/proxy/serve-read.js'
import {
  auditRepeatedHit,
  auditHit,
  AuditSampler,
  type AuditResult,
  type AuditDifference
} from '../../src/proxy/audit.js'
import { invalidationOfRead } from '../../src/proxy/local-invalidator.js'
import { ParsedRequest } from '../../src/proxy/parsed-request.js'
import { type ProxyParts } from '../../src/http/send-response.js'
import { pinTo } from '../../src/proxy/pinned-read.js'
import { type Read } from '../../src/api/read.js'
import { matchEndpoint, readRequest } from '../../src/api/read-request.js'
import { contextAt, readOfTarget, settingsOf } from '../support/proxy-context.js'
import { respondOk, stamps, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'

const modules = '/v1/accounts/0x1/modules?ledger_version=500'
type Script = (response: ServerResponse, request: IncomingMessage) => void

const ok = (body: string, headers?: Record<string, string>): Script => response => {
  respondOk(response, body, headers)
}

interface Audited {
  readonly parts: ProxyParts
  readonly results: AuditResult[]
  readonly differences: AuditDifference[]
  readonly requests: string[]
  upgrade(): Promise<void>
  /** Returns the audit result of a hit if the upstream then responds so. */
  afterHit(script: Script): Promise<AuditResult | undefined>
}

/** Stores one read and audits every hit on it. */
async function audited (
  t: Test,
  first: Script = ok('[1]'),
  read = readOfTarget(modules),
  change: Parameters<typeof settingsOf>[0] = {}
): Promise<Audited> {
  let script = first
  let release = 'aaaa'
  const stub = await startStubUpstream(t, (request, response) => {
    script(response, request)
  }, (_request, response) => {
    respondOk(response, JSON.stringify({ git_hash: release }))
  })
  const results: AuditResult[] = []
  const differences: AuditDifference[] = []
  const made = contextAt(t, stub.url).context
  const parts: ProxyParts = {
    ...made,
    auditSampler: new AuditSampler(difference => {
      differences.push(difference)
    }, async () => {}),
    metrics: {
      ...made.metrics,
      audited: result => {
        results.push(result)
      }
    },
    settings: settingsOf({ audit: { share: 1 }, ...change })
  }
  await serveRead(parts, read)
  t.same(results, [], 'only hits are audited')
  return {
    parts,
    results,
    differences,
    requests: stub.requests,
    upgrade: async () => {
      release = 'bbbb'
      await parts.resolveChain()
    },
    afterHit: async then => {
      script = then
      const before = results.length
      await serveRead(parts, read)
      await until(() => results.length > before, 'the hit was audited')
      return results.at(-1)
    }
  }
}

const respond = (status: number, body: string, headers: Record<string, string> = stamps()): Script => response => {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body)
}
const itemMatch = matchEndpoint('/v1/tables/0x1/item?ledger_version=500', 'GET')
const item = itemMatch && readRequest(itemMatch, {
  method: 'POST',
  accept: undefined,
  contentType: 'application/json',
  body: Buffer.from('{"key_type":"u64","value_type":"u64","key":"7"}')
})
const error = (code: string): string => JSON.stringify({ message: 'no', error_code: code, vm_error_code: null })

t.test('an entry that changes during its audit is not invalidated again', async t => {
  const read = readOfTarget(modules)
  type Row = readonly [what: string, change: (parts: ProxyParts) => void, body: string, AuditResult, entries: number]
  const rows: readonly Row[] = [
    [
      'evicted',
      parts => {
        parts.memory.clear()
      },
      '[1]',
      'equal',
      0
    ],
    [
      'purged',
      ({ invalidator, tracker }) => {
        const space = tracker.space ?? Space.begin(4)
        invalidator.invalidate(space, invalidationOfRead(read, space)).catch(t.fail)
      },
      '[2]',
      'unavailable',
      0
    ],
    [
      'replaced',
      parts => {
        const unaudited = { ...parts, settings: settingsOf() }
        const { entry } = serveFromMemory(unaudited, new ParsedRequest(read)) as { entry: Entry }
        parts.memory.put(
          parts.tracker.space ?? Space.begin(4),
          makeEntry({ ...entry, body: Buffer.from('[2]'), validity: undefined })
        )
      },
      '[2]',
      'unavailable',
      1
    ],
    [
      'of a chain that was reset',
      ({ tracker }) => {
        tracker.setSpace(Space.begin(4), undefined, true)
      },
      '[2]',
      'unavailable',
      1
    ]
  ]
  for (const [what, change, body, result, entries] of rows) {
    const { afterHit, parts, differences } = await audited(t)
    t.equal(
      await afterHit(response => {
        change(parts)
        respondOk(response, body)
      }),
      result,
      what
    )
    t.same(differences, [], what)
    t.equal(parts.memory.entries, entries, what)
  }
})

t.test('the audit compares every part of a response and invalidates what differs', async t => {
  const missing = respond(404, error('table_item_not_found'))
  const found = respond(200, '"1"')
  const list = ok('[1]')
  const paged = ok('[1]', { 'x-aptos-cursor': '00ab' })
  type Row = readonly [what: string, first: Script, then: Script, part: string, AuditResult, read?: Read | undefined]
  const rows: readonly Row[] = [
    ['another body', list, ok('[2]'), 'body', 'different'],
    ['a cursor that was not there', list, paged, 'cursor', 'different'],
    ['another cursor', paged, ok('[1]', { 'x-aptos-cursor': '00ac' }), 'cursor', 'different'],
    [
      'the same type written otherwise',
      list,
      ok('[1]', { 'content-type': 'application/json' }),
      'content-type',
      'rendering'
    ],
    ['a listing that is cut and does not say where it goes on', list, ok('[1,2]'), 'body', 'different'],
    ['a not-found that is found now', missing, found, 'status', 'different', item],
    ['a value that is gone', found, missing, 'status', 'different', item]
  ]
  for (const [what, first, then, part, result, read] of rows) {
    const { afterHit, differences, parts } = await audited(t, first, read)
    t.equal(await afterHit(first), 'equal', what)
    t.equal(await afterHit(then), result, what)
    t.match(differences, [{ result, part, upstream: 'n', cached: Buffer }], what)
    t.equal(parts.memory.entries, 0, what)
  }
})

t.test('BCS is audited against other releases too, whose cursors may be encoded differently', async t => {
  const page = (cursor: string): Script =>
    ok('bytes', { 'content-type': 'application/x-bcs', 'x-aptos-cursor': cursor })
  const { afterHit, upgrade } = await audited(t, page('00ab'), { ...readOfTarget(modules), accept: 'bcs' })
  await upgrade()
  t.equal(await afterHit(page('00ab')), 'equal')
  t.equal(await afterHit(page('00ac')), 'rendering')
})

t.test('an old rendering that no upstream can make today is audited as unavailable', async t => {
  const { afterHit, upgrade } = await audited(t)
  await upgrade()
  t.equal(await afterHit(respond(503, '')), 'unavailable')
})

t.test('a response that does not concern stored history invalidates nothing', async t => {
  const cases: Array<[what: string, then: Script]> = [
    ['a denial that is never stored', respond(404, error('account_not_found'))],
    ['a lagging upstream', respond(404, error('version_not_found'))],
    ['an upstream that has pruned it', respond(410, error('version_pruned'))],
    ['an upstream with a disabled API', respond(403, error('api_disabled'))],
    ['a gateway\'s own not-found', respond(404, '<html>', { 'content-type': 'text/html' })],
    ['one without a code', respond(404, '{}')],
    ['an unhealthy upstream', respond(500, error('internal_error'))],
    ['one that has too much to do', respond(429, '')],
    ['an error with status 200', respond(200, error('internal_error'), {})],
    ['a page of a gateway', respond(200, '<html>', { ...stamps(), 'content-type': 'text/html' })],
    ['a response that is too large to store', ok(JSON.stringify('x'.repeat(2e6)))],
    ['a response that must not be stored', ok('[2]', { 'cache-control': 'no-store' })],
    ['a version that is behind its window', ok('[2]', { 'x-aptos-ledger-oldest-version': '501' })],
    ['nothing', response => {
      response.destroy()
    }]
  ]
  for (const [what, then] of cases) {
    const { afterHit, parts } = await audited(t)
    t.equal(await afterHit(then), 'unavailable', what)
    t.equal(parts.memory.entries, 1, what)
  }
})

t.test('an entry that differs from what was stored is different, whatever a release explains', async t => {
  const { afterHit, parts, differences } = await audited(t)
  const variantEntry = new ParsedRequest(readOfTarget(modules))
  const { entry } = serveFromMemory(parts, variantEntry) as { entry: Entry }
  entry.body.write('[1]'.replace('1', '9'))
  t.equal(await afterHit(ok('[9,1]')), 'different')
  t.match(differences.at(-1), { part: 'body' })
})

t.test('a micro-cached state is audited at its version; other micro-cached responses are not', async t => {
  const latest = readOfTarget('/v1/accounts/0x1/modules')
  const { afterHit, requests, differences, parts, results } = await audited(t, undefined, latest, {
    latest: { stateMs: 1000, promote: false }
  })
  t.equal(await afterHit(ok('[1]')), 'equal')
  t.match(requests.at(-1), /modules\?ledger_version=1000$/)
  auditRepeatedHit(parts, pinTo(parts.tracker.space ?? Space.begin(4), latest))
  await until(() => results.length === 2, '2 audits are over')
  t.same(results, ['equal', 'equal'])
  t.equal(await afterHit(ok('[2]')), 'different')
  t.match(differences, [{ reads: [{ ledgerVersion: 1000n }, { ledgerVersion: undefined }] }])
  t.equal(parts.memory.entries, 0)
  for (
    const [target, body, stamped] of [['/v1/estimate_gas_price', '{"gas_estimate":100}', stamps()], [
      '/v1/info',
      '{}',
      {}
    ]] as const
  ) {
    const unaudited = await audited(t, respond(200, body, stamped), readOfTarget(target))
    let draws = 0
    Object.assign(unaudited.parts.auditSampler, {
      run: async () => {
        draws++
      }
    })
    for (let nth = 0; nth < 3; nth++) {
      t.match(await serveRead(unaudited.parts, readOfTarget(target)), { name: 'hit', tier: 'memory' })
    }
    t.equal(draws, 0, target)
  }
})

t.test('an audit of a gone entry, an unknown chain or a read without version compares nothing', async t => {
  const { parts, results, requests } = await audited(t)
  const { space } = parts.tracker
  const read = readOfTarget(modules)
  const { entry } = serveFromMemory(parts, new ParsedRequest(read)) as { entry: Entry }
  await until(() => results.length === 1, 'the hit at hand')
  const [times, page] = [requests.length, readOfTarget('/v1/accounts/0x1/events/0x1::a::B/c?start=5')]
  auditRepeatedHit(parts, pinTo(space ?? Space.begin(4), readOfTarget('/v1/blocks/by_version/7')))
  auditHit(parts, page, entry)
  parts.tracker.clearSpace()
  auditHit(parts, read, entry)
  await until(() => results.length === 3, '3 audits are over')
  t.same(results.slice(1), ['unavailable', 'unavailable'])
  t.equal(requests.length, times)
})

t.test('an event page is audited by its start, and a path that changes streams invalidates nothing', async t => {
  const event = (nth: number, data: unknown): string =>
    JSON.stringify({
      version: '500',
      guid: { creation_number: '2', account_address: '0x1' },
      sequence_number: String(nth),
      type: '0x1::a::B',
      data
    })
  const page = (data: unknown): Script => ok(`[${event(5, data)},${event(6, 'b')}]`)
  const events = readOfTarget('/v1/accounts/0x1/events/0x1::a::B/c?start=5&limit=2')
  const { afterHit, differences, parts } = await audited(t, page('a'), events)
  t.equal(await afterHit(page('a')), 'equal')
  t.equal(await afterHit(respond(404, error('resource_not_found'))), 'unavailable')
  t.equal(await afterHit(page({ value: 'a' })), 'rendering', 'decoded by modules of another head')
  t.match(await serveRead(parts, events), { name: 'miss' })
  t.equal(await afterHit(page({ value: 'a' })), 'equal')
  t.equal(await afterHit(page({ value: 'b' })), 'different')
  t.match(differences, [{ part: 'body' }, { part: 'body' }])
})

t.test('an internal error during an audit counts as unavailable', async t => {
  const { afterHit, parts } = await audited(t)
  Object.assign(parts.upstreamPool, {
    fetchInBackground: async () => {
      throw new Error('a fault')
    }
  })
  t.equal(await afterHit(() => {}), 'unavailable')
})

t.test('the configured share of hits is audited, also after it changes', async t => {
  const auditor = new AuditSampler(() => {}, async () => {})
  for (const share of [1, 0.5, 0, 0.01, 1]) {
    const drawn = Array.from({ length: 20_000 }, () => auditor.shouldAudit(share)).filter(Boolean).length
    // Five standard deviations.
    t.ok(Math.abs(drawn - 20_000 * share) <= 5 * Math.sqrt(20_000 * share * (1 - share)), `${drawn} for ${share}`)
  }
})

t.test('at most eight responses are compared at a time, and none at a share of zero', async t => {
  let pendingFetches: ServerResponse[] = []
  const { parts, results, requests } = await audited(t)
  Object.assign(parts.upstreamPool, {
    fetchInBackground: async () => await new Promise(resolve => pendingFetches.push(resolve as never))
  })
  for (let nth = 0; nth < 9; nth++) await serveRead(parts, readOfTarget(modules))
  t.same(results, ['unavailable'])
  for (const release of pendingFetches) (release as unknown as (word: undefined) => void)(undefined)
  pendingFetches = []
  await until(() => results.length === 9, '9 audits are over')
  Object.assign(parts, { settings: settingsOf() })
  for (let nth = 0; nth < 9; nth++) await serveRead(parts, readOfTarget(modules))
  t.equal(pendingFetches.length + results.length, 9)
  t.equal(requests.length, 1)
})
