import { type Test } from 'tap'
import { ownOutcomeIn } from '../cache-status.js'
import { type Exchange, HostileBench, plainGet } from './hostile-bench.js'
import { type HostileCase, hostileCases } from './hostile-case.js'
import { type WireResponse } from './wire-client.js'

/** Sends every hostile case to varves with or without the fast path. */
export async function runHostileCases (t: Test, fastPath: boolean): Promise<void> {
  const faults: unknown[] = []
  const note = (fault: unknown): void => {
    faults.push(fault)
  }
  process.on('unhandledRejection', note).on('uncaughtExceptionMonitor', note)
  t.teardown(() => {
    process.off('unhandledRejection', note).off('uncaughtExceptionMonitor', note)
  })
  // Slow cases wait for a timeout of varve. They run beside the others with their own upstream, since the others count
  // requests.
  const slowBench = await HostileBench.start(t, fastPath)
  const slow = hostileCases().flatMap(({ cases }) => cases.filter(({ check }) => check.slow)).map(hostile => ({
    hostile,
    exchange: slowBench.send(hostile.raw, hostile)
  }))
  const benches = [slowBench]
  for (const { file, cases } of hostileCases()) {
    const bench = await HostileBench.start(t, fastPath)
    benches.push(bench)
    await t.test(file, async t => {
      for (const hostile of cases.filter(({ check }) => check.slow !== true)) {
        await t.test(titleOf(hostile), async t => {
          await runCase(t, bench, hostile)
        })
      }
    })
  }
  for (const { hostile, exchange } of slow) {
    await t.test(titleOf(hostile), async t => {
      await runCase(t, slowBench, hostile, exchange)
    })
  }
  await t.test('nothing is left behind', async t => {
    for (const bench of benches) await bench.checkEnd(t)
    t.same(faults, [], 'no rejected promise went unhandled')
  })
}

const titleOf = ({ id, expect }: HostileCase): string => `${id}: ${expect}`

/** Runs one case: all its own checks and those of every case. */
async function runCase (
  t: Test,
  bench: HostileBench,
  given: HostileCase,
  exchange?: Promise<Exchange>
): Promise<void> {
  const { upstream } = bench
  const { check, prime, upstream_answer: answer } = given
  const since = upstream.received.length
  const etag = prime === undefined ? '' : (await bench.sendPlain(prime)).response.headers.get('etag') ?? ''
  const hostile = { ...given, raw: given.raw.replaceAll('<<ETAG>>', etag) }
  if (answer !== undefined) {
    upstream.scripts.set('*', { bytes: answer, then: check.close_upstream === true ? 'end' : 'keep' })
  }
  const first = await (exchange ?? bench.send(hostile.raw, hostile))
  checkResponses(t, hostile, first)
  for (let time = 1; time < (check.repeat ?? 1); time++) {
    t.ok((await bench.send(hostile.raw, hostile)).upstreamRequests.length > 0, 'each time it reaches the upstream')
  }
  const count = bench.requestsSince(since).length
  if (check.upstream !== undefined) t.ok(count <= check.upstream, `${count} upstream requests of ${check.upstream}`)
  if (check.cacheable !== undefined) await checkAgain(t, bench, hostile, first)
  upstream.scripts.clear()
  const seen = bench.requestsSince(since).join('\n')
  if (check.upstream_sees !== undefined) t.match(seen, check.upstream_sees, 'the upstream requests')
  if (check.upstream_never_sees !== undefined) t.notMatch(seen, check.upstream_never_sees, 'what never goes upstream')
  await checkOthers(t, bench, hostile, first)
  await bench.checkAlive(t)
  await checkAfterWellFormed(t, bench, hostile, first)
  t.same(bench.failures.splice(0), [], 'every response keeps the invariants, every connection is in step')
}

/** Checks the responses to the bytes, together and one by one. */
function checkResponses (
  t: Test,
  { raw, expect, then, check }: HostileCase,
  { responses, isClosedByPeer, upstreamRequests }: Exchange
): void {
  const [first] = responses
  const statuses = responses.map(({ status }) => status)
  // Reads the status from the description if a case has no other check.
  const rejectedWith = /^Refused with (\d{3});/.exec(expect)?.[1]
  if (rejectedWith !== undefined) t.same(statuses, [Number(rejectedWith)], 'the status in the description')
  if (check.status !== undefined) t.ok(check.status.includes(first?.status ?? 0), `the first status ${first?.status}`)
  if (check.statuses !== undefined) t.same(statuses, check.statuses, 'the statuses in order')
  if (check.answers !== undefined) t.equal(responses.length, check.answers, 'the number of responses')
  if (check.closes !== undefined) t.equal(isClosedByPeer, check.closes, 'varve closes the connection, or not')
  if (check.repeat !== undefined) t.ok(upstreamRequests.length > 0, 'it reaches the upstream')
  if (check.response_has !== undefined) t.match(first?.head, check.response_has, 'the head contains')
  if (check.body_has !== undefined) t.match(first?.body, check.body_has, 'the body contains')
  for (const response of responses) {
    if (check.response_never !== undefined) t.notMatch(response.head, check.response_never, 'no head contains')
    if (check.body_never !== undefined) t.notMatch(response.body, check.body_never, 'no body contains')
  }
  const isAnswered = responses.length > 0 || (isClosedByPeer && check.status?.includes(0) === true)
  if (then === undefined) t.ok(isAnswered, `a response to ${raw.slice(0, 60)}`)
}

/** Repeats the request: it is a hit of the first response, or not, as the case expects. */
async function checkAgain (t: Test, bench: HostileBench, hostile: HostileCase, first: Exchange): Promise<void> {
  const again = await bench.send(hostile.raw, hostile)
  if (hostile.check.cacheable === true) {
    t.same(again.upstreamRequests, [], 'the same request again does not reach the upstream')
    t.same(bodiesOf(again), bodiesOf(first), 'and has the same bytes')
    return
  }
  t.ok(
    again.upstreamRequests.length > 0 || [...again.responses, ...first.responses].every(isRejection),
    `it reaches the upstream or is rejected each time; stored, it would be ${hostile.check.if_stored ?? 'wrong'}`
  )
}

/** Checks the effect of the first request on other requests. */
async function checkOthers (t: Test, bench: HostileBench, hostile: HostileCase, first: Exchange): Promise<void> {
  const { check, raw } = hostile
  if (check.must_not_share_with !== undefined) {
    const { response, upstreamRequests } = await bench.sendPlain(check.must_not_share_with)
    t.ok(upstreamRequests.length > 0 || isRejection(response), 'the other request reaches the upstream, or is rejected')
    t.notOk(response.status === 200 && bodiesOf(first).includes(response.body), 'and does not get this response')
  }
  if (check.same_as !== undefined) {
    const { response, upstreamRequests } = await bench.sendPlain(check.same_as)
    t.same(
      [upstreamRequests.length, response.body],
      [0, first.responses[0]?.body],
      'another variant of the same read is a hit'
    )
  }
  if (check.still_kept !== undefined) {
    const { response, upstreamRequests } = await bench.sendPlain(check.still_kept)
    t.same([upstreamRequests.length, response.status], [0, 200], 'entries from before are still cached')
  }
  if (check.other_body_nonempty !== undefined) {
    const { response } = await bench.sendPlain(check.other_body_nonempty)
    t.match(response, { status: 200, body: /./ }, 'the other request has a body')
  }
  for (let round = 0; check.body_never_next !== undefined && round < 3; round++) {
    t.notMatch(bodiesOf(await bench.send(raw, hostile)).join(), check.body_never_next, 'what the next never has')
  }
  if (check.ordered === true) {
    const alone: string[] = []
    for (const each of raw.split(/(?<=\r\n\r\n)(?=GET )/)) alone.push((await bench.sendPlain(each)).response.body)
    t.same(bodiesOf(first), alone, 'responses come in the order of the requests')
  }
}

/** Checks the parsed-request cache: a request rejected or keyed apart stays so after a canonical one was cached. */
async function checkAfterWellFormed (
  t: Test,
  bench: HostileBench,
  hostile: HostileCase,
  first: Exchange
): Promise<void> {
  const { check, raw, then } = hostile
  const isServed = first.responses.length > 0 && first.responses.every(({ status }) => status < 500)
  if (!isServed || hostile.upstream_answer !== undefined || then !== undefined || check.slow === true) return
  const others = new Set<string>()
  for (const wellFormed of [check.must_not_share_with, check.same_as, check.still_kept, plainOf(raw)]) {
    if (wellFormed === undefined) continue
    // Sends it twice: the first read is cached, the second enters the parsed-request cache.
    const { responses: [, second] } = await bench.send(wellFormed + wellFormed)
    const isHit = second?.status === 200 && second.headers.get('cache-status')?.includes('hit') === true
    if (wellFormed === check.must_not_share_with && isHit) others.add(second.body)
  }
  for (let round = 0; round < 2; round++) {
    const again = await bench.send(raw, hostile)
    checkResponses(t, hostile, again)
    if (check.may_differ !== true) {
      const statuses = [again, first].map(({ responses }) => responses.map(({ status }) => status))
      t.same(statuses[0], statuses[1], 'after a canonical request was cached the status is the same')
    }
    t.notOk(again.responses.some(({ body }) => body !== '' && others.has(body)), 'it is not another\'s response')
    if (check.cacheable === false) {
      t.ok(again.upstreamRequests.length > 0 || again.responses.every(isRejection), 'it is never a hit')
    }
    if (check.cacheable === true || check.same_as !== undefined) {
      t.same(bodiesOf(again), bodiesOf(first), 'its bytes are the same')
    }
  }
}

/** Returns the plain form of a request, without additional header fields; undefined if there is none. */
function plainOf (raw: string): string | undefined {
  const [, method, target = ''] =
    /^(GET|POST) (\/v1\/[\x21\x24-\x3b\x3d\x3f-\x5f\x61-\x7e]{1,900}) HTTP\/1\.1\r\n/.exec(raw) ?? []
  if (method === 'GET') return plainGet(target)
  const body = /\r\n\r\n(\{"key_type":[^]*\})$/.exec(raw)?.[1]
  if (method === undefined || body === undefined || body.includes('<<')) return undefined
  const lines = `Host: node.example\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}`
  return `POST ${target} HTTP/1.1\r\n${lines}\r\n\r\n${body}`
}

function isRejection ({ status, headers }: WireResponse): boolean {
  return status >= 400 && ownOutcomeIn(headers.get('cache-status')) !== undefined
}

function bodiesOf ({ responses }: Exchange): string[] {
  return responses.map(({ body }) => body)
}
