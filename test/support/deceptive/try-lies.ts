import { type Test } from 'tap'
import { statusLabelOf } from '../../../src/metrics/status-labels.js'
import { sendRequest } from '../client.js'
import { type TestVarve, varveAt } from '../varve.js'
import { headPosition as headOfTruth, type ReadKind, readKinds, type TrueResponse } from './read-kinds.js'
import { type DeceptiveUpstream, startDeceptiveUpstream, setTrueResponse } from './deceptive-upstream.js'
import { WireClient, type WireResponse } from './wire-client.js'
import { type ScriptedBytes } from './response-bytes.js'

/**
 * What a client may see of a lie: the truth, since the lie touches nothing of it; varve's own 503; a body that visibly
 * breaks off; or the node's own word under a status, with the body that its framing says.
 */
export type ExpectedOutcome = 'truth' | 'refused' | 'broken' | {
  readonly status: number,
  readonly body: string | undefined
}

/** A lie, told in place of the truth. */
export interface Lie {
  readonly name: string
  readonly respond: (truth: TrueResponse, kind: ReadKind) => ScriptedBytes
  /** What is seen of it by a client of a read that varve knows; undefined where there is nothing to try. */
  readonly cacheable:
    | ((truth: TrueResponse, kind: ReadKind) => ExpectedOutcome | undefined)
    | ExpectedOutcome
    | undefined
  /** The same for what is passed through. */
  readonly forwarded:
    | ((truth: TrueResponse, kind: ReadKind) => ExpectedOutcome | undefined)
    | ExpectedOutcome
    | undefined
  /** What an operator sees of it: the reason why a known read was not kept, and how the question ended. */
  readonly reason?: string
  readonly status?: string
}

/** varve in front of a lying node, and the counters as they were. */
export interface DeceptionSetup {
  readonly varve: TestVarve
  readonly upstream: DeceptiveUpstream
  readonly next: () => number
}

/** Starts both. */
export async function startDeception (t: Test, change: Parameters<typeof varveAt>[2] = {}): Promise<DeceptionSetup> {
  const node = await startDeceptiveUpstream(t)
  const { upstream, ...rest } = change
  const varve = await varveAt(t, node.url, {
    passThrough: 'all',
    latest: { infoMs: 0, gasMs: 0, promote: false },
    ...rest,
    upstream: { timeoutMs: 2000, ...upstream }
  })
  let nth = 0
  return { varve, upstream: node, next: () => ++nth }
}

// Every lie writes this word where it must not arrive.
const mark = /evil/

/** Tells a lie to one kind of read, and then the truth; gives all that is wrong with what came of it. */
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
    const asked = countOf(upstream, truth)
    note('the truth later', faultsIn('truth', truth, await client.send(kind.request(truth.nth))))
    if (seen !== 'truth' && countOf(upstream, truth) === asked) faults.push('it was kept')
    note('the truth again', faultsIn('truth', truth, await client.send(kind.request(truth.nth))))
    if (client.unexpectedText !== '') {
      faults.push(`more than one answer for each request: ${client.unexpectedText.slice(0, 100)}`)
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

// What is asked for behind a lie is of another kind, so that an answer to the wrong request is seen.
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

/** All that is wrong with what a client saw. */
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
    // Where all of it comes at once varve may see that it is broken before it has handed on any of it.
    : (seen === 'broken' && end === 'broken') ||
      (is(503, undefined) && head.includes('cache-status: varve; detail=unavailable'))
  const stamped = headerLines.find(([name]) => name === 'x-node-ledger-version')?.[1] ?? truthful
  return [
    ...(stamped === truthful ? [] : [`the position ${stamped}`]),
    ...(isSeen ? [] : [`${JSON.stringify(seen)} was to be seen, not ${status} ${end} ${body.slice(0, 80)}`]),
    ...(mark.test(head) ? [`the node's own in the head: ${head}`] : []),
    ...names.filter(name => never.includes(name)).map(name => `the line ${name}`),
    ...onceAtMost.filter(name => names.filter(other => other === name).length > 1).map(name =>
      `the line ${name} twice`
    ),
    ...(names.includes('content-length') && names.includes('transfer-encoding') ? ['two marks of the end'] : [])
  ]
}

/**
 * Tries every lie on so many kinds of read, the next lie on the next of them, and looks whether the counters tell of
 * it.
 */
export async function tryLies (t: Test, lies: readonly Lie[], atMost: number = readKinds.length): Promise<void> {
  const stage = await startDeception(t)
  let before = await countsOf(stage)
  for (const [at, lie] of lies.entries()) {
    const all = readKinds.flatMap(kind => {
      const truth = kind.trueResponse(stage.next())
      const seen = expectedOutcomeOf(lie, kind, truth)
      return seen === undefined ? [] : [{ kind, truth, seen }]
    })
    const tried = [...all, ...all].slice(
      at * atMost % all.length,
      at * atMost % all.length + Math.min(atMost, all.length)
    )
    const faults = await Promise.all(
      tried.map(async ({ kind, truth, seen }) =>
        (await faultsOfLie(stage, kind, lie, seen, truth)).map(fault => `${kind.name}: ${fault}`)
      )
    )
    const after = await countsOf(stage)
    const told = tried.flatMap(({ kind: { endpoint, isForwarded }, seen }) => [
      ...(lie.reason === undefined || isForwarded || seen === 'truth'
        ? []
        : [`varve_not_stored_total{endpoint="${endpoint}",reason="${lie.reason}"}`]),
      // What breaks off while it is handed on was counted when it began.
      ...(lie.status === undefined || (isForwarded && seen === 'broken')
        ? []
        : [
          `varve_upstream_requests_total{upstream="node",endpoint="${endpoint}",status="${statusLabelOf(lie.status)}"}`
        ])
    ])
    const untold = told.filter(series => (after.get(series) ?? 0) <= (before.get(series) ?? 0)).map(series =>
      `not counted: ${series}`
    )
    t.same([...faults.flat(), ...untold], [], lie.name)
    before = after
  }
}

async function countsOf ({ varve }: DeceptionSetup): Promise<Map<string, number>> {
  const { body } = await sendRequest(varve.adminUrl, '/metrics')
  return new Map(
    body.split('\n').map(line => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))])
  )
}
