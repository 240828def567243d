import { type Test } from 'tap'
import { ownOutcomeIn } from '../own-outcome.js'
import { type HostileResponse } from './split-responses.js'
import { type HostileHarness, plainGet, type HostileExchange } from './hostile-harness.js'
import { type HostileCase, type CheckName } from './hostile-case.js'

/** A check of a case that a law overrules, and what holds instead. */
export interface CheckException {
  readonly not: CheckName
  readonly instead: Partial<HostileCase['check']>
  readonly because: string
}

/**
 * Runs one case against the bench, unless it has been said already: everything that it says, and what is true of every
 * case.
 */
export async function runCase (
  t: Test,
  bench: HostileHarness,
  given: HostileCase,
  { exception, said }: {
    readonly exception?: CheckException | undefined,
    readonly said?: Promise<HostileExchange> | undefined
  } = {}
): Promise<void> {
  const { [exception?.not ?? 'alive']: _not, ...rest } = given.check
  const { upstream } = bench
  const since = upstream.received.length
  const primed = given.prime === undefined ? undefined : await bench.sendPlain(given.prime)
  const raw = given.raw.replaceAll('<<ETAG>>', primed?.answer.headers.get('etag') ?? '')
  const hostile = { ...given, raw, check: { ...rest, ...exception?.instead } }
  const { check } = hostile
  const script = hostile.upstream_answer
  upstream.script = script === undefined ? undefined : { raw: script, closes: check.close_upstream === true }
  const first = await (said ?? bench.send(hostile.raw, hostile))
  checkAnswers(t, hostile, first)
  if (check.repeat !== undefined) await checkRepeat(t, bench, hostile, first, check.repeat)
  if (check.upstream !== undefined) {
    t.ok(
      upstream.received.length - since <= check.upstream,
      `the node is asked at most ${check.upstream} times, and was ${upstream.received.length - since} times`
    )
  }
  if (check.cacheable !== undefined) await checkAgain(t, bench, hostile, first, check.cacheable)
  upstream.script = undefined
  const seen = upstream.received.slice(since).join('\n')
  if (check.upstream_sees !== undefined) t.match(seen, check.upstream_sees, 'what the node sees')
  if (check.upstream_never_sees !== undefined) t.notMatch(seen, check.upstream_never_sees, 'what the node never sees')
  await checkOthers(t, bench, hostile, first)
  await bench.checkAlive(t)
  await checkAfterWellSpelled(t, bench, hostile, first)
  t.same(bench.failures.splice(0), [], 'every answer is as any should be, and every connection in step')
}

/** What the answers to the bytes must be, each and all. */
function checkAnswers (
  t: Test,
  { raw, expect, then, check }: HostileCase,
  { responses, isClosedByPeer }: HostileExchange
): void {
  const [first] = responses
  const statuses = responses.map(({ status }) => status)
  // In words alone, where a case says no more than this.
  const refused = /^Refused with (\d{3});/.exec(expect)?.[1]
  if (refused !== undefined) t.same(statuses, [Number(refused)], 'the status that is promised in words')
  if (check.status !== undefined) {
    t.ok(
      check.status.includes(first?.status ?? 0),
      `the first status is one of ${check.status.join(', ')}, and was ${first?.status ?? 0}`
    )
  }
  if (check.statuses !== undefined) t.same(statuses, check.statuses, 'the statuses in order')
  if (check.answers !== undefined) t.equal(responses.length, check.answers, 'so many answers')
  if (check.closes !== undefined) t.equal(isClosedByPeer, check.closes, 'whether varve closes the connection')
  if (check.response_has !== undefined) t.match(first?.head, check.response_has, 'what the head has')
  if (check.body_has !== undefined) t.match(first?.body, check.body_has, 'what the body has')
  for (const answer of responses) {
    if (check.response_never !== undefined) t.notMatch(answer.head, check.response_never, 'what no head has')
    if (check.body_never !== undefined) t.notMatch(answer.body, check.body_never, 'what no body has')
  }
  if (then === undefined) {
    t.ok(
      responses.length > 0 || (isClosedByPeer && check.status?.includes(0) === true),
      `there is an answer to ${raw.slice(0, 60)}`
    )
  }
}

/** Sent so often, each must reach the node. */
async function checkRepeat (
  t: Test,
  bench: HostileHarness,
  hostile: HostileCase,
  first: HostileExchange,
  times: number
): Promise<void> {
  t.ok(first.upstreamRequests.length > 0, 'it reaches the node')
  for (let time = 1; time < times; time++) {
    t.ok((await bench.send(hostile.raw, hostile)).upstreamRequests.length > 0, 'and again')
  }
}

/** The same request once more: whether it is answered from what the first one left behind. */
async function checkAgain (
  t: Test,
  bench: HostileHarness,
  hostile: HostileCase,
  first: HostileExchange,
  isCacheable: boolean
): Promise<void> {
  const again = await bench.send(hostile.raw, hostile)
  if (isCacheable) {
    t.same(again.upstreamRequests, [], 'the same request once more does not reach the node')
    t.same(bodiesOf(again), bodiesOf(first), 'and brings the same bytes')
    return
  }
  if (again.upstreamRequests.length > 0) return
  t.ok(
    again.responses.every(isRefusal) && first.responses.every(isRefusal),
    `the same request once more reaches the node or is refused each time; kept, it would be ${
      hostile.check.if_stored ?? 'wrong'
    }`
  )
}

/** What the first request leaves behind for others. */
async function checkOthers (
  t: Test,
  bench: HostileHarness,
  hostile: HostileCase,
  first: HostileExchange
): Promise<void> {
  const { check } = hostile
  if (check.must_not_share_with !== undefined) {
    const other = await bench.sendPlain(check.must_not_share_with)
    t.ok(
      other.upstreamRequests.length > 0 || isRefusal(other.answer),
      'the other request reaches the node, or is refused'
    )
    t.notOk(
      other.answer.status === 200 && bodiesOf(first).includes(other.answer.body),
      'and is not given the answer to this one'
    )
    checkForm(t, other.answer, check.other_must_be)
  }
  if (check.same_as !== undefined) {
    const { answer, upstreamRequests } = await bench.sendPlain(check.same_as)
    t.same(
      [upstreamRequests.length, answer.body],
      [0, first.responses[0]?.body],
      'the same read in another spelling has its answer, and does not reach the node'
    )
    checkForm(t, answer, check.other_must_be)
  }
  if (check.still_kept !== undefined) {
    t.match(
      await bench.sendPlain(check.still_kept),
      { upstreamRequests: { length: 0 }, answer: { status: 200 } },
      'what was kept before is still kept'
    )
  }
  if (check.other_body_nonempty !== undefined) {
    t.match(
      await bench.sendPlain(check.other_body_nonempty),
      { answer: { status: 200, body: /./ } },
      'the other request has a body'
    )
  }
  if (check.must_not_store_status !== undefined) {
    const [answer] = (await bench.send(hostile.raw, hostile)).responses
    t.not(answer?.status, check.must_not_store_status, 'the status is not kept')
    t.ok(answer?.body, 'nor is the lack of a body')
  }
  if (check.body_never_next !== undefined) {
    for (let round = 0; round < 3; round++) {
      t.notMatch(
        bodiesOf(await bench.send(hostile.raw, hostile)).join(),
        check.body_never_next,
        'what the next answer never has'
      )
    }
  }
  if (check.ordered === true) await checkOrder(t, bench, hostile, first)
}

function checkForm (t: Test, { headers }: HostileResponse, form: HostileCase['check']['other_must_be']): void {
  if (form !== undefined) {
    t.equal(
      headers.get('content-type')?.split(';')[0],
      { json: 'application/json', bcs: 'application/x-bcs' }[form],
      'it has the form that it asks for'
    )
  }
}

/** Each answer of a connection is the one that its request has when it is asked alone: these are kept by now. */
async function checkOrder (
  t: Test,
  bench: HostileHarness,
  { raw }: HostileCase,
  first: HostileExchange
): Promise<void> {
  const alone: string[] = []
  for (const request of raw.split(/(?<=\r\n\r\n)(?=GET )/)) alone.push((await bench.sendPlain(request)).answer.body)
  t.same(bodiesOf(first), alone, 'the answers come in the order of the requests')
}

/**
 * The way past the router: what was refused or read apart at first is so too when a well-spelled request has been kept
 * and its spelling is known.
 */
async function checkAfterWellSpelled (
  t: Test,
  bench: HostileHarness,
  hostile: HostileCase,
  first: HostileExchange
): Promise<void> {
  const { check } = hostile
  const isOwnAnswer = first.responses.every(({ status }) => status < 500) && first.responses.length > 0
  if (!isOwnAnswer || hostile.upstream_answer !== undefined || hostile.then !== undefined || check.slow === true) return
  const others = new Set<string>()
  for (const well of [check.must_not_share_with, check.same_as, check.still_kept, plainOf(hostile.raw)]) {
    if (well === undefined) continue
    // The first keeps it, the second has its spelling remembered.
    const { responses: [, kept] } = await bench.send(well + well)
    if (
      well === check.must_not_share_with && kept?.status === 200 &&
      kept.headers.get('cache-status')?.includes('hit') === true
    ) others.add(kept.body)
  }
  for (let round = 0; round < 2; round++) {
    const again = await bench.send(hostile.raw, hostile)
    if (check.may_differ === true) {
      t.ok(
        check.status?.includes(again.responses[0]?.status ?? 0),
        'after a well-spelled request was kept it is answered as it may be'
      )
    } else {
      t.same(
        again.responses.map(({ status }) => status),
        first.responses.map(({ status }) => status),
        'after a well-spelled request was kept it is answered alike'
      )
    }
    for (const answer of again.responses) {
      if (check.response_never !== undefined) t.notMatch(answer.head, check.response_never)
      if (check.body_never !== undefined) t.notMatch(answer.body, check.body_never)
      t.notOk(answer.body !== '' && others.has(answer.body), 'and not with what is another\'s')
    }
    if (check.response_has !== undefined) t.match(again.responses[0]?.head, check.response_has)
    if (check.cacheable === false) {
      t.ok(
        again.upstreamRequests.length > 0 || again.responses.every(isRefusal),
        'it still reaches the node, or is refused'
      )
    }
    if (check.cacheable === true || check.same_as !== undefined) {
      t.same(bodiesOf(again), bodiesOf(first), 'its bytes are the same')
    }
    if (check.closes !== undefined) t.equal(again.isClosedByPeer, check.closes)
  }
}

/** The same request in good faith, without whatever its lines say besides; undefined where it has no such form. */
function plainOf (raw: string): string | undefined {
  const [, method, target = ''] =
    /^(GET|POST) (\/v1\/[\x21\x24-\x3b\x3d\x3f-\x5f\x61-\x7e]{1,900}) HTTP\/1\.1\r\n/.exec(raw) ?? []
  if (method === 'GET') return plainGet(target)
  const body = /\r\n\r\n(\{"key_type":[^]*\})$/.exec(raw)?.[1]
  if (method === undefined || body === undefined || body.includes('<<')) return undefined
  return `POST ${target} HTTP/1.1\r\nHost: node.example\r\nContent-Type: application/json\r\nContent-Length: ${
    Buffer.byteLength(body)
  }\r\n\r\n${body}`
}

function isRefusal ({ status, headers }: HostileResponse): boolean {
  return status >= 400 && ownOutcomeIn(headers.get('cache-status')) !== undefined
}

function bodiesOf ({ responses }: HostileExchange): string[] {
  return responses.map(({ body }) => body)
}
