import { type Test } from 'tap'
import { statusLabelOf } from '../../../src/metrics/definitions.js'
import { proofFor } from '../stub-upstream.js'
import { type ConfigChange, type TestVarve, varveAt } from '../varve.js'
import {
  type Answer,
  answerTo,
  type Effect,
  type Lie,
  type Read,
  readKindOf,
  type ReadKind,
  readKinds,
  readOf,
  trueHead
} from './lies.js'
import { type RawUpstream, startRawUpstream, targetOf } from './raw-upstream.js'
import { WireClient, type WireResponse } from './wire-client.js'

/** An upstream that gives true answers, except where a false one is scripted. */
export class Deception {
  readonly upstream: RawUpstream
  readonly #truths: Map<string, Read>
  head = trueHead
  #n = 10_000

  private constructor (upstream: RawUpstream, truths: Map<string, Read>) {
    this.upstream = upstream
    this.#truths = truths
  }

  static async start (t: Test): Promise<Deception> {
    const truths = new Map<string, Read>()
    const upstream = await startRawUpstream(t, request => {
      const target = targetOf(request)
      const read = target === '/v1' ? index : truths.get(target)
      if (read !== undefined) return answerTo(read, {}, deception.head).bytes
      const proof = proofFor(target)
      return answerTo(index, proof === undefined ? notFound : { body: proof }).bytes
    })
    const deception = new Deception(upstream, truths)
    return deception
  }

  /** Returns a new read of a kind, which the upstream answers with the truth. */
  read (kind: ReadKind): Read {
    const read = readOf(kind, ++this.#n)
    this.#truths.set(read.target, read)
    return read
  }

  /** Number of requests to a target. */
  countOf (target: string): number {
    return this.upstream.received.filter(request => targetOf(request) === target).length
  }
}

/** The index, which varve polls. */
export const index = {
  kind: readKindOf('info'),
  n: 0,
  type: 'application/json',
  body: '{"git_hash":"aaaa"}'
}
const notFound = {
  first: 'HTTP/1.1 404 Not Found',
  body: '{"message":"not found","error_code":"web_framework_error","vm_error_code":null}'
}

/** A deceptive upstream with one varve. */
export interface DeceivedVarve {
  readonly deception: Deception
  readonly varve: TestVarve
}

/** Starts both. */
export async function startDeceived (
  t: Test,
  { upstream, ...rest }: ConfigChange = {}
): Promise<DeceivedVarve> {
  const deception = await Deception.start(t)
  const varve = await varveAt(t, deception.upstream.url, {
    passThrough: 'all',
    latest: { infoMs: 0, gasMs: 0, promote: false },
    ...rest,
    upstream: { timeoutMs: 2000, ...upstream }
  })
  return { deception, varve }
}

/** Returns the effect of a false answer on a kind of read; undefined if the case does not apply. */
export function effectOn ({ endpoint, name }: ReadKind, lie: Lie): Effect | undefined {
  if (lie.reads?.includes(name) === false || lie.not?.includes(name) === true) return undefined
  if (endpoint === 'other') return lie.passed
  return endpoint === 'info' ? lie.info ?? lie.known : lie.known
}

/** Sends a false answer to one kind of read, then the true one; returns everything wrong with the results. */
export async function faultsOfLie (
  { varve, deception }: DeceivedVarve,
  kind: ReadKind,
  lie: Lie,
  seen: Effect
): Promise<string[]> {
  const { upstream } = deception
  const faults: string[] = []
  const note = (when: string, found: readonly string[]): void => {
    faults.push(...found.map(text => `${kind.name}, ${when}: ${text}`))
  }
  const read = deception.read(kind)
  // A read of another kind, so that a misplaced response shows.
  const other = deception.read(otherOf(kind))
  const answer = answerTo(read, lie)
  upstream.scripts.set(read.target, answer)
  let client = new WireClient(varve.url)
  try {
    note('the lie', faultsIn(seen, read, await client.send(read.request), answer))
    upstream.scripts.delete(read.target)
    if (client.isClosed) client = new WireClient(varve.url)
    note('the next on that connection', faultsIn('truth', other, await client.send(other.request)))
    const requestCount = deception.countOf(read.target)
    note('the truth later', faultsIn('truth', read, await client.send(read.request)))
    if (seen !== 'truth' && deception.countOf(read.target) === requestCount) note('the truth later', ['a cached lie'])
    // Answers the last one by the bytes of the request, where the fast path is on.
    for (const when of ['the truth again', 'the truth once more']) {
      note(when, faultsIn('truth', read, await client.send(read.request)))
    }
    if (client.text !== '') note('the end', [`more than one response for each request: ${client.text.slice(0, 100)}`])
  } catch (error) {
    note('the end', [String(error)])
  } finally {
    upstream.scripts.delete(read.target)
    client.close()
  }
  return faults
}

/** Returns a kind of read whose answers none of this kind accepts. */
export const otherOf = ({ name }: ReadKind): ReadKind => readKindOf(name === 'modules' ? 'table item' : 'modules')

// Words of false answers, and lines of one connection, which must not reach a client.
const never = /evil|^(?:set-cookie|trailer|te|upgrade|location|proxy-\w+|content-location):/im

/** Returns everything wrong with a client's response. */
export function faultsIn (
  seen: Effect,
  { body: truth }: Read,
  { status, head, headers, body, isWhole }: WireResponse,
  sent: Pick<Answer, 'status' | 'body'> = { status: 200, body: truth }
): string[] {
  const isRejected = isWhole && status === 503 && headers.get('cache-status') === 'varve; detail=unavailable'
  const isSeen = {
    truth: isWhole && status === 200 && body === truth,
    handed: isWhole && status === sent.status && body === sent.body,
    rejected: isRejected,
    // Accepts a 503 too: varve may notice a broken body before it has forwarded a byte, if all arrives at once.
    broken: !isWhole || isRejected
  }[seen]
  const version = headers.get('x-node-ledger-version') ?? trueHead['x-aptos-ledger-version']
  const names = [...head.matchAll(/^([^:\r\n]+):/gm)].map(([, name]) => name)
  return [
    ...(isSeen ? [] : [`not ${seen}: ${status} ${isWhole ? 'whole' : 'broken'} ${body.slice(0, 80)}`]),
    ...(version === trueHead['x-aptos-ledger-version'] ? [] : [`the position ${version}`]),
    ...(never.test(head) ? [`a line that is not for clients: ${head}`] : []),
    ...names.filter((name, at) => names.indexOf(name) !== at).map(name => `the line ${name} twice`),
    ...(headers.has('content-length') && headers.has('transfer-encoding') ? ['two marks of the end'] : [])
  ]
}

/** Tries every false answer on `atMost` kinds of read in turn, and checks that counters report it. */
export async function tryLies (t: Test, lies: readonly Lie[], atMost: number): Promise<void> {
  // Alternates between varves with and without the fast path.
  const stages = [await startDeceived(t), await startDeceived(t, { http: { fastPath: false } })]
  let before = await countsOf(stages)
  for (const [at, lie] of lies.entries()) {
    const all = readKinds.flatMap((kind, nth) => {
      const seen = effectOn(kind, lie)
      const stage = stages[(at + nth) % stages.length]
      return seen === undefined || stage === undefined ? [] : [{ kind, seen, stage }]
    })
    const from = at * atMost % all.length
    const tried = [...all, ...all].slice(from, from + Math.min(atMost, all.length))
    const faults = await Promise.all(
      tried.map(async ({ stage, kind, seen }) => await faultsOfLie(stage, kind, lie, seen))
    )
    const after = await countsOf(stages)
    const uncounted = tried.flatMap(tried => seriesOf(lie, tried)).filter(series =>
      (after.get(series) ?? 0) <= (before.get(series) ?? 0)
    )
    t.same([...faults.flat(), ...uncounted.map(series => `not counted: ${series}`)], [], lie.name)
    before = after
  }
}

/** Returns the series that must count a false answer. */
function seriesOf (lie: Lie, { kind: { endpoint }, seen }: { kind: ReadKind, seen: Effect }): string[] {
  const isPassed = endpoint === 'other'
  return [
    ...(lie.reason == null || isPassed || seen === 'truth'
      ? []
      : [`varve_not_stored_total{endpoint="${endpoint}",reason="${lie.reason}"}`]),
    // Skips forwarded responses that break off: the counter was raised when they began.
    ...(lie.status === undefined || (isPassed && seen === 'broken')
      ? []
      : [`varve_upstream_requests_total{upstream="node",endpoint="${endpoint}",status="${statusLabelOf(lie.status)}"}`])
  ]
}

async function countsOf (stages: readonly DeceivedVarve[]): Promise<Map<string, number>> {
  const sums = new Map<string, number>()
  for (const { varve: { metrics } } of stages) {
    for (const name of ['varve_not_stored_total', 'varve_upstream_requests_total']) {
      const text = await metrics.registry.getSingleMetricAsString(name)
      for (const [, series = '', value] of text.matchAll(/^(varve_[^ ]+) (.+)$/gm)) {
        sums.set(series, (sums.get(series) ?? 0) + Number(value))
      }
    }
  }
  return sums
}
