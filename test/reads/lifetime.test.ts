import t from 'tap'
import { readPosition } from '../../src/ledger/position.js'
import { type Answer } from '../../src/reads/answer.js'
import { type Bounds, judge, untruth } from '../../src/reads/lifetime.js'
import { type Read } from '../../src/reads/read.js'
import { matchEndpoint, readRequest } from '../../src/reads/read-request.js'

const bounds: Bounds = { ignoreCacheControl: false, eventsTtlMs: 1000 }

const whyNotKept = (read: Read, answer: Answer, given: Bounds): string | undefined => untruth(read, answer) ?? judge(read, answer, given).notKept

function read (target: string, accept?: string): Read {
  const match = matchEndpoint(target)
  if (match === undefined) throw new Error(target)
  return readRequest(match, { method: 'GET', accept, contentType: undefined, body: Buffer.alloc(0) }, { eventsDefault: 25 })
}

const modules = read('/v1/accounts/0x1/modules?ledger_version=50')

const stamps = {
  'x-aptos-chain-id': '4',
  'x-aptos-ledger-version': '90',
  'x-aptos-ledger-oldest-version': '10',
  'x-aptos-ledger-timestampusec': '1000',
  'x-aptos-epoch': '2',
  'x-aptos-block-height': '9',
  'x-aptos-oldest-block-height': '1'
}

function answer (change: { status?: number, headers?: Record<string, string | string[] | undefined>, body?: string } = {}): Answer {
  const headers = { 'content-type': 'application/json; charset=utf-8', ...stamps, ...change.headers }
  return { status: change.status ?? 200, headers, body: Buffer.from(change.body ?? '[]'), rest: undefined, isFramed: true, stamped: readPosition(headers), release: undefined }
}

const missing = (code: string): string => JSON.stringify({ message: 'gone', error_code: code, vm_error_code: null })

t.test('a whole 200 with a position, within its window, of the right chain and type, is kept', async t => {
  t.equal(whyNotKept(modules, answer(), bounds), undefined)
  t.equal(whyNotKept(read('/v1/accounts/0x1/modules?ledger_version=10'), answer(), bounds), undefined, 'at the oldest version')
  t.equal(whyNotKept(read('/v1/accounts/0x1/modules?ledger_version=90'), answer(), bounds), undefined, 'at the head')
  t.equal(whyNotKept(modules, answer({ headers: { 'x-aptos-epoch': undefined } }), bounds), undefined, 'the epoch alone is optional')
  t.equal(whyNotKept(modules, answer({ headers: { 'content-encoding': 'identity', vary: 'Origin, Accept' } }), bounds), undefined)
  t.equal(whyNotKept(read('/v1/accounts/0x1/modules?ledger_version=50', 'application/x-bcs'), answer({ headers: { 'content-type': 'application/x-bcs' } }), bounds), undefined)
})

t.test('an item that did not exist at a version never existed then: table_item_not_found is kept', async t => {
  t.equal(whyNotKept(modules, answer({ status: 404, body: missing('table_item_not_found') }), bounds), undefined)
  const bcs = read('/v1/accounts/0x1/modules?ledger_version=50', 'application/x-bcs')
  t.equal(whyNotKept(bcs, answer({ status: 404, body: missing('table_item_not_found') }), bounds), undefined, 'errors are JSON whatever was asked')
})

t.test('everything else is not kept, each for its reason', async t => {
  const cases: [string, Answer][] = [
    ...[500, 503, 429, 403, 400, 206, 204, 304, 301, 410].map((status): [string, Answer] => ['status', answer({ status })]),
    ...['version_not_found', 'resource_not_found', 'block_not_found', ''].map((code): [string, Answer] => ['status', answer({ status: 404, body: missing(code) })]),
    ['status', answer({ status: 404, body: 'not json' })],
    ['status', answer({ status: 404, body: 'null' })],
    ['status', answer({ status: 404, body: missing('table_item_not_found'), headers: { 'content-type': 'text/html' } })],
    ['no_position', answer({ headers: { 'x-aptos-block-height': undefined } })],
    ['no_position', answer({ status: 404, body: missing('table_item_not_found'), headers: { 'x-aptos-block-height': undefined } })],
    ['no_position', answer({ headers: { 'x-aptos-ledger-version': ['90', '91'] } })],
    ['incomplete', { ...answer(), isFramed: false }],
    ['wrong_type', answer({ headers: { 'content-type': 'text/html' } })],
    ['wrong_type', answer({ headers: { 'content-type': 'application/x-bcs' } })],
    ['wrong_type', answer({ headers: { 'content-type': undefined } })],
    ['wrong_coding', answer({ headers: { 'content-encoding': 'gzip' } })],
    ...['no-store', 'private', 'No-Cache', 'max-age=5, no-store', 'private="x"'].map((value): [string, Answer] => ['vetoed', answer({ headers: { 'cache-control': value } })]),
    ...['*', 'Accept, X-Api-Key', 'Cookie'].map((vary): [string, Answer] => ['vetoed', answer({ headers: { vary } })]),
    ['vetoed', answer({ headers: { vary: ['Accept', 'Cookie'] } })],
    ['outside_window', answer({ headers: { 'x-aptos-ledger-version': '49' } })],
    ['outside_window', answer({ headers: { 'x-aptos-ledger-oldest-version': '51' } })],
    ['too_large', { ...answer(), rest: Object.assign((async function * () {})(), { destroy: () => {} }) }]
  ]
  for (const [reason, given] of cases) t.equal(whyNotKept(modules, given, bounds), reason, `${reason}: ${given.status} ${JSON.stringify(given.headers).slice(0, 40)}`)
  t.equal(whyNotKept(read('/v1/accounts/0x1/modules'), answer(), bounds), 'outside_window', 'a latest read has no version to be kept under')
})

t.test('a node configured with ignoreCacheControl has no veto', async t => {
  t.equal(whyNotKept(modules, answer({ headers: { 'cache-control': 'no-store', vary: '*' } }), { ...bounds, ignoreCacheControl: true }), undefined)
})

t.test('a 200 that cannot be true is told from an answer that is merely not kept', async t => {
  t.equal(untruth(modules, answer()), undefined)
  t.equal(untruth(modules, answer({ headers: { 'x-aptos-chain-id': undefined } })), 'no_position')
  t.equal(untruth(modules, answer({ headers: { 'content-type': 'text/html' } })), 'wrong_type')
  t.equal(untruth(modules, answer({ headers: { 'content-encoding': 'br' } })), 'wrong_coding')
  t.equal(untruth(modules, { ...answer(), isFramed: false }), 'incomplete', 'what ends with its connection may have been cut short')
  for (const status of [204, 206, 302, 304]) t.equal(untruth(modules, answer({ status })), 'status', `nothing was asked for that a ${status} answers`)
  t.equal(untruth(modules, answer({ headers: { 'cache-control': 'no-store' } })), undefined)
  t.equal(untruth(modules, answer({ status: 503, headers: { 'content-type': 'text/html', 'x-aptos-chain-id': undefined } })), undefined, 'errors are handed on')
})

t.test('node info bears no position and is JSON whatever was asked', async t => {
  const info = read('/v1/info', 'application/x-bcs')
  t.equal(untruth(info, answer({ headers: { 'x-aptos-chain-id': undefined } })), undefined)
})
