import { type Test } from 'tap'
import { ownOutcomeIn } from '../cache-status.js'
import { type HostileResponse } from './split-responses.js'
import { type HostileHarness, plainGet, type HostileExchange } from './hostile-harness.js'
import { type HostileCase, type CheckName } from './hostile-case.js'

/** A check of a case that a law overrides, and the rule instead. */
export interface CheckException {
  readonly not: CheckName
  readonly instead: Partial<HostileCase['check']>
  readonly because: string
}

/** Runs one case once: all its own checks and those of every case. */
export async function runCase (
  t: Test,
  bench: HostileHarness,
  given: HostileCase,
  { exception, exchange }: {
    readonly exception?: CheckException | undefined,
    readonly exchange?: Promise<HostileExchange> | undefined
  } = {}
): Promise<void> {
  const { [exception?.not ?? 'alive']: _not, ...rest } = given.check
  const { upstream } = bench
  const since = upstream.received.length
  const primed = given.prime === undefined ? undefined : await bench.sendPlain(given.prime)
  const raw = given.raw.replaceAll('<<ETAG>>', primed?.response.headers.get('etag') ?? '')
  const hostile = { ...given, raw, check: { ...rest, ...exception?.instead } }
  const { check } = hostile
  const script = hostile.upstream_answer
  upstream.script = script === undefined ? undefined : { raw: script, closes: check.close_upstream === true }
  const first = await (exchange ?? bench.send(hostile.raw, hostile))
  checkResponses(t, hostile, first)
  if (check.repeat !== undefined) await checkRepeat(t, bench, hostile, first, check.repeat)
  if (check.upstream !== undefined) {
    t.ok(
      upstream.received.length - since <= check.upstream,
      `at most ${check.upstream} upstream requests, and there were ${upstream.received.length - since}`
    )
  }
  if (check.cacheable !== undefined) await checkAgain(t, bench, hostile, first, check.cacheable)
  upstream.script = undefined
  const seen = upstream.received.slice(since).join('\n')
  if (check.upstream_sees !== undefined) t.match(seen, check.upstream_sees, 'the upstream requests')
  if (check.upstream_never_sees !== undefined) {
    t.notMatch(seen, check.upstream_never_sees, 'text that never goes upstream')
  }
  await checkOthers(t, bench, hostile, first)
  await bench.checkAlive(t)
  await checkAfterWellFormed(t, bench, hostile, first)
  t.same(bench.failures.splice(0), [], 'every response keeps the invariants, every connection is in step')
}

/** Checks the responses to the bytes, together and one by one. */
function checkResponses (
  t: Test,
  { raw, expect, then, check }: HostileCase,
  { responses, isClosedByPeer }: HostileExchange
): void {
  const [first] = responses
  const statuses = responses.map(({ status }) => status)
  // Reads the status from the description if a case has no other check.
  const rejectedWith = /^Refused with (\d{3});/.exec(expect)?.[1]
  if (rejectedWith !== undefined) t.same(statuses, [Number(rejectedWith)], 'the status in the description')
  if (check.status !== undefined) {
    t.ok(
      check.status.includes(first?.status ?? 0),
      `the first status is one of ${check.status.join(', ')}, and was ${first?.status ?? 0}`
    )
  }
  if (check.statuses !== undefined) t.same(statuses, check.statuses, 'the statuses in order')
  if (check.answers !== undefined) t.equal(responses.length, check.answers, 'the number of responses')
  if (check.closes !== undefined) t.equal(isClosedByPeer, check.closes, 'varve closes the connection, or not')
  if (check.response_has !== undefined) t.match(first?.head, check.response_has, 'the head contains')
  if (check.body_has !== undefined) t.match(first?.body, check.body_has, 'the body contains')
  for (const response of responses) {
    if (check.response_never !== undefined) t.notMatch(response.head, check.response_never, 'no head contains')
    if (check.body_never !== undefined) t.notMatch(response.body, check.body_never, 'no body contains')
  }
  if (then === undefined) {
    t.ok(
      responses.length > 0 || (isClosedByPeer && check.status?.includes(0) === true),
      `a response to ${raw.slice(0, 60)}`
    )
  }
}

/** Expects every repetition to reach the upstream. */
async function checkRepeat (
  t: Test,
  bench: HostileHarness,
  hostile: HostileCase,
  first: HostileExchange,
  times: number
): Promise<void> {
  t.ok(first.upstreamRequests.length > 0, 'it reaches the upstream')
  for (let time = 1; time < times; time++) {
    t.ok((await bench.send(hostile.raw, hostile)).upstreamRequests.length > 0, 'and again')
  }
}

/** Repeats the request: it is a hit of the first response, or not, as the case expects. */
async function checkAgain (
  t: Test,
  bench: HostileHarness,
  hostile: HostileCase,
  first: HostileExchange,
  isCacheable: boolean
): Promise<void> {
  const again = await bench.send(hostile.raw, hostile)
  if (isCacheable) {
    t.same(again.upstreamRequests, [], 'the same request again does not reach the upstream')
    t.same(bodiesOf(again), bodiesOf(first), 'and has the same bytes')
    return
  }
  if (again.upstreamRequests.length > 0) return
  t.ok(
    again.responses.every(isRejection) && first.responses.every(isRejection),
    `the same request reaches the upstream or is rejected each time; stored, it would be ${
      hostile.check.if_stored ?? 'wrong'
    }`
  )
}

/** Checks the effect of the first request on other requests. */
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
      other.upstreamRequests.length > 0 || isRejection(other.response),
      'the other request reaches the upstream, or is rejected'
    )
    t.notOk(
      other.response.status === 200 && bodiesOf(first).includes(other.response.body),
      'and does not get this response'
    )
    checkForm(t, other.response, check.other_must_be)
  }
  if (check.same_as !== undefined) {
    const { response, upstreamRequests } = await bench.sendPlain(check.same_as)
    t.same(
      [upstreamRequests.length, response.body],
      [0, first.responses[0]?.body],
      'another variant of the same read is a hit'
    )
    checkForm(t, response, check.other_must_be)
  }
  if (check.still_kept !== undefined) {
    t.match(
      await bench.sendPlain(check.still_kept),
      { upstreamRequests: { length: 0 }, response: { status: 200 } },
      'entries from before are still cached'
    )
  }
  if (check.other_body_nonempty !== undefined) {
    t.match(
      await bench.sendPlain(check.other_body_nonempty),
      { response: { status: 200, body: /./ } },
      'the other request has a body'
    )
  }
  if (check.must_not_store_status !== undefined) {
    const [response] = (await bench.send(hostile.raw, hostile)).responses
    t.not(response?.status, check.must_not_store_status, 'the status is not cached')
    t.ok(response?.body, 'nor is the missing body')
  }
  if (check.body_never_next !== undefined) {
    for (let round = 0; round < 3; round++) {
      t.notMatch(
        bodiesOf(await bench.send(hostile.raw, hostile)).join(),
        check.body_never_next,
        'text that the next response never has'
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
      'it has the requested form'
    )
  }
}

/** Expects each response of a connection to equal that of its request alone, which is cached by now. */
async function checkOrder (
  t: Test,
  bench: HostileHarness,
  { raw }: HostileCase,
  first: HostileExchange
): Promise<void> {
  const alone: string[] = []
  for (const request of raw.split(/(?<=\r\n\r\n)(?=GET )/)) alone.push((await bench.sendPlain(request)).response.body)
  t.same(bodiesOf(first), alone, 'responses come in the order of the requests')
}

/** Checks the parsed-request cache: a request rejected or keyed apart stays so after a canonical one was cached. */
async function checkAfterWellFormed (
  t: Test,
  bench: HostileHarness,
  hostile: HostileCase,
  first: HostileExchange
): Promise<void> {
  const { check } = hostile
  const isOwnResponse = first.responses.every(({ status }) => status < 500) && first.responses.length > 0
  if (!isOwnResponse || hostile.upstream_answer !== undefined || hostile.then !== undefined || check.slow === true) {
    return
  }
  const others = new Set<string>()
  for (const wellFormed of [check.must_not_share_with, check.same_as, check.still_kept, plainOf(hostile.raw)]) {
    if (wellFormed === undefined) continue
    // Sends it twice: the first read is cached, the second enters the parsed-request cache.
    const { responses: [, second] } = await bench.send(wellFormed + wellFormed)
    if (
      wellFormed === check.must_not_share_with && second?.status === 200 &&
      second.headers.get('cache-status')?.includes('hit') === true
    ) others.add(second.body)
  }
  for (let round = 0; round < 2; round++) {
    const again = await bench.send(hostile.raw, hostile)
    if (check.may_differ === true) {
      t.ok(
        check.status?.includes(again.responses[0]?.status ?? 0),
        'after a canonical request was cached the status is allowed'
      )
    } else {
      t.same(
        again.responses.map(({ status }) => status),
        first.responses.map(({ status }) => status),
        'after a canonical request was cached the status is the same'
      )
    }
    for (const response of again.responses) {
      if (check.response_never !== undefined) t.notMatch(response.head, check.response_never)
      if (check.body_never !== undefined) t.notMatch(response.body, check.body_never)
      t.notOk(response.body !== '' && others.has(response.body), 'and not another\'s response')
    }
    if (check.response_has !== undefined) t.match(again.responses[0]?.head, check.response_has)
    if (check.cacheable === false) {
      t.ok(
        again.upstreamRequests.length > 0 || again.responses.every(isRejection),
        'it still reaches the upstream, or is rejected'
      )
    }
    if (check.cacheable === true || check.same_as !== undefined) {
      t.same(bodiesOf(again), bodiesOf(first), 'its bytes are the same')
    }
    if (check.closes !== undefined) t.equal(again.isClosedByPeer, check.closes)
  }
}

/** Returns the plain form of a request, without additional header fields; undefined if there is none. */
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

function isRejection ({ status, headers }: HostileResponse): boolean {
  return status >= 400 && ownOutcomeIn(headers.get('cache-status')) !== undefined
}

function bodiesOf ({ responses }: HostileExchange): string[] {
  return responses.map(({ body }) => body)
}
