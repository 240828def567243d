import { type Test } from 'tap'
import { statusLabelOf } from '../../../src/metrics/status-labels.js'
import { sendRequest } from '../client.js'
import { type TestVarve, varveAt } from '../varve.js'
import { headPosition as headOfTruth, type ReadKind, readKinds, type TrueResponse } from './read-kinds.js'
import { type DeceptiveUpstream, startDeceptiveUpstream, setTrueResponse } from './deceptive-upstream.js'
import { WireClient, type WireResponse } from './wire-client.js'
import { type ScriptedBytes } from './response-bytes.js'

/**
 * Visible effect of a false response: none; varve's own 503; a body that visibly breaks off; or the upstream's text
 * under a status.
 */
export type ExpectedOutcome = 'truth' | 'rejected' | 'broken' | {
  readonly status: number,
  readonly body: string | undefined
}

/** A false response, sent instead of the true one. */
export interface Lie {
  readonly name: string
  readonly respond: (truth: TrueResponse, kind: ReadKind) => ScriptedBytes
  /** Effect on a client of a cacheable read; undefined if the case does not apply. */
  readonly cacheable:
    | ((truth: TrueResponse, kind: ReadKind) => ExpectedOutcome | undefined)
    | ExpectedOutcome
    | undefined
  /** The same for forwarded reads. */
  readonly forwarded:
    | ((truth: TrueResponse, kind: ReadKind) => ExpectedOutcome | undefined)
    | ExpectedOutcome
    | undefined
  /** Reason in metrics why the read was not stored, and its upstream status. */
  readonly reason?: string
  readonly status?: string
}

/** varve in front of a deceptive upstream, with counters from the start. */
export interface DeceptionSetup {
  readonly varve: TestVarve
  readonly upstream: DeceptiveUpstream
  readonly next: () => number
}

/** Starts both. */
export async function startDeception (t: Test, change: Parameters<typeof varveAt>[2] = {}): Promise<DeceptionSetup> {
  const sandbox = await startDeceptiveUpstream(t)
  const { upstream, ...rest } = change
  const varve = await varveAt(t, sandbox.url, {
    passThrough: 'all',
    latest: { infoMs: 0, gasMs: 0, promote: false },
    ...rest,
    upstream: { timeoutMs: 2000, ...upstream }
  })
  let nth = 0
  return { varve, upstream: sandbox, next: () => ++nth }
}

// Word in every false response, which must not reach a client or the cache.
const liePattern = /evil/

/** Sends a false response to one kind of read, then the true one; returns everything wrong with the results. */
export async function faultsOfLie (
  { varve, upstream, next }: DeceptionSetup,
  kind: ReadKind,
  lie: Lie,
  seen: ExpectedOutcome,
  truth: TrueResponse
): Promise<string[]> {
  const faults: string[] = []
  const note = (when: string, found: readonly string[]): void => {
    faults.push(...found.map(text => `${when}: ${text}`))
  }
  const other = otherOf(kind).trueResponse(next())
  setTrueResponse(truth)
  setTrueResponse(other)
  upstream.lies.set(truth.target, lie.respond(truth, kind))
  let client = new WireClient(varve.url)
  try {
    note('the lie', faultsIn(seen, truth, await client.send(kind.request(truth.nth))))
    upstream.lies.delete(truth.target)
    if (client.isClosed) client = new WireClient(varve.url)
    note('the next on that connection', faultsIn('truth', other, await client.send(otherOf(kind).request(other.nth))))
    const requestCount = countOf(upstream, truth)
    note('the truth later', faultsIn('truth', truth, await client.send(kind.request(truth.nth))))
    if (seen !== 'truth' && countOf(upstream, truth) === requestCount) faults.push('it was cached')
    // Answers the last one by the bytes of the request, where the fast path is on.
    for (const when of ['the truth again', 'the truth once more']) {
      note(when, faultsIn('truth', truth, await client.send(kind.request(truth.nth))))
    }
    if (client.unexpectedText !== '') {
      faults.push(`more than one response for each request: ${client.unexpectedText.slice(0, 100)}`)
    }
  } catch (error) {
    faults.push(String(error))
  } finally {
    upstream.lies.delete(truth.target)
    client.close()
  }
  return faults
}

function countOf ({ requests }: DeceptiveUpstream, { target }: TrueResponse): number {
  return requests.filter(other => other === target).length
}

// Returns a read of another kind for the second request, so that a misplaced response shows.
function otherOf (kind: ReadKind): ReadKind {
  const other = readKinds.find(({ name }) => name === (kind.name === 'modules' ? 'table item' : 'modules'))
  return other ?? kind
}

function expectedOutcomeOf (lie: Lie, kind: ReadKind, truth: TrueResponse): ExpectedOutcome | undefined {
  const seen = kind.isForwarded ? lie.forwarded : lie.cacheable
  return typeof seen === 'function' ? seen(truth, kind) : seen
}

const onceAtMost = [
  'content-length',
  'transfer-encoding',
  'content-type',
  'cache-status',
  'etag',
  'x-node-ledger-version',
  'x-aptos-ledger-version'
]
const never = [
  'set-cookie',
  'trailer',
  'te',
  'upgrade',
  'location',
  'proxy-authenticate',
  'proxy-connection',
  'content-location',
  'x-evil'
]

const truthful = headOfTruth['x-aptos-ledger-version']

/** Returns everything wrong with a client's response. */
export function faultsIn (
  seen: ExpectedOutcome,
  truth: TrueResponse,
  { status, head, headerLines, body, end }: WireResponse
): string[] {
  const names = headerLines.map(([name]) => name)
  const isWhole = end === 'length' || end === 'chunks' || end === 'none'
  const is = (wanted: number, text: string | undefined): boolean =>
    status === wanted && isWhole && (text === undefined || body === text)
  const isSeen = seen === 'truth'
    ? is(200, truth.body)
    : typeof seen === 'object'
    ? is(seen.status, seen.body)
    // Accepts a 503 too: varve may notice a broken body before it has forwarded a byte, if all arrives at once.
    : (seen === 'broken' && end === 'broken') ||
      (is(503, undefined) && head.includes('cache-status: varve; detail=unavailable'))
  const stamped = headerLines.find(([name]) => name === 'x-node-ledger-version')?.[1] ?? truthful
  return [
    ...(stamped === truthful ? [] : [`the position ${stamped}`]),
    ...(isSeen ? [] : [`${JSON.stringify(seen)} was to be seen, not ${status} ${end} ${body.slice(0, 80)}`]),
    ...(liePattern.test(head) ? [`the node's own in the head: ${head}`] : []),
    ...names.filter(name => never.includes(name)).map(name => `the line ${name}`),
    ...onceAtMost.filter(name => names.filter(other => other === name).length > 1).map(name =>
      `the line ${name} twice`
    ),
    ...(names.includes('content-length') && names.includes('transfer-encoding') ? ['two marks of the end'] : [])
  ]
}

/** Tries every false response on `atMost` kinds of read in turn, and checks that counters report it. */
export async function tryLies (t: Test, lies: readonly Lie[], atMost: number = readKinds.length): Promise<void> {
  // Alternates between varves with and without the fast path.
  const stages = [await startDeception(t), await startDeception(t, { http: { fastPath: false } })] as const
  const stageOf = (nth: number): DeceptionSetup => stages[nth % 2 === 0 ? 0 : 1]
  let before = await sumOfCounts(stages)
  for (const [at, lie] of lies.entries()) {
    const all = readKinds.flatMap((kind, nth) => {
      const stage = stageOf(at + nth)
      const truth = kind.trueResponse(stage.next())
      const seen = expectedOutcomeOf(lie, kind, truth)
      return seen === undefined ? [] : [{ stage, kind, truth, seen }]
    })
    const tried = [...all, ...all].slice(
      at * atMost % all.length,
      at * atMost % all.length + Math.min(atMost, all.length)
    )
    const faults = await Promise.all(
      tried.map(async ({ stage, kind, truth, seen }) =>
        (await faultsOfLie(stage, kind, lie, seen, truth)).map(fault => `${kind.name}: ${fault}`)
      )
    )
    const after = await sumOfCounts(stages)
    const expectedSeries = tried.flatMap(({ kind: { endpoint, isForwarded }, seen }) => [
      ...(lie.reason === undefined || isForwarded || seen === 'truth'
        ? []
        : [`varve_not_stored_total{endpoint="${endpoint}",reason="${lie.reason}"}`]),
      // Skips forwarded responses that break off: the counter was raised when they began.
      ...(lie.status === undefined || (isForwarded && seen === 'broken')
        ? []
        : [
          `varve_upstream_requests_total{upstream="node",endpoint="${endpoint}",status="${statusLabelOf(lie.status)}"}`
        ])
    ])
    const uncounted = expectedSeries.filter(series => (after.get(series) ?? 0) <= (before.get(series) ?? 0)).map(
      series => `not counted: ${series}`
    )
    t.same([...faults.flat(), ...uncounted], [], lie.name)
    before = after
  }
}

async function sumOfCounts (stages: readonly DeceptionSetup[]): Promise<Map<string, number>> {
  const sums = new Map<string, number>()
  for (const stage of stages) {
    for (const [series, count] of await countsOf(stage)) sums.set(series, (sums.get(series) ?? 0) + count)
  }
  return sums
}

async function countsOf ({ varve }: DeceptionSetup): Promise<Map<string, number>> {
  const { body } = await sendRequest(varve.adminUrl, '/metrics')
  return new Map(
    body.split('\n').map(line => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))])
  )
}
