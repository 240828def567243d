import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { unavailableError } from '../../src/api/error-response.js'
import { type SharedHeads } from '../../src/chain/tracker.js'
import { forwardUnknownRoute } from '../../src/proxy/forward-unknown-route.js'
import { noClient } from '../../src/proxy/pinned-read.js'
import { reachInAll } from '../../src/proxy/shared-position.js'
import { serveFromMemory } from '../../src/proxy/serve-read.js'
import { ParsedRequest } from '../../src/proxy/parsed-request.js'
import { type Outcome } from '../../src/proxy/outcomes.js'
import { type ContextAtSandbox, contextAtSandbox, listenerContextOf, readOfTarget } from '../support/proxy-context.js'
import { until } from '../support/until.js'

const history = '/v1/accounts/0x1/modules?ledger_version=500'
const latest = '/v1/accounts/0x1/modules'

/** Other processes that have heads up to a version, and get no other until `catchUp`. */
class Others implements SharedHeads {
  fault = undefined
  waits: bigint[] = []
  #version: bigint
  #parts: ContextAtSandbox['parts']
  #resume: Array<() => void> = []
  isLapsed = false

  constructor ({ parts }: ContextAtSandbox) {
    this.#parts = parts
    this.#version = parts.tracker.position?.head.version ?? -1n
    parts.tracker.hold(parts.tracker.known)
    parts.tracker.join(this)
  }

  has (version = -1n): boolean {
    return version <= this.#version && !this.isLapsed
  }

  async reach (version = -1n): Promise<void> {
    if (this.isLapsed) throw unavailableError('lapsed')
    if (this.has(version)) return
    this.waits.push(version)
    await new Promise<void>(resolve => this.#resume.push(resolve))
    if (this.isLapsed) throw unavailableError('lapsed')
  }

  catchUp (): void {
    const { known } = this.#parts.tracker
    this.#version = known?.position.head.version ?? -1n
    this.#parts.tracker.hold(known)
    this.#resume.forEach(resume => {
      resume()
    })
  }
}

async function start (t: Test): Promise<ContextAtSandbox & { others: Others, grow: () => bigint }> {
  const made = await contextAtSandbox(t)
  return {
    ...made,
    others: new Others(made),
    grow: () => {
      made.sandbox.ledger.grow()
      return made.sandbox.ledger.head.version
    }
  }
}

const headOf = ({ position }: Outcome): bigint => position?.head.version ?? -1n

async function untilWaiting ({ waits }: Others): Promise<void> {
  await until(() => waits.length > 0, 'a read waits', 3000)
}

t.test('a latest read waits until others have its head, and hits go on with the head before', async t => {
  const { others, get, grow, parts } = await start(t)
  const before = headOf(await get(history))
  const version = grow()
  const reading = get(latest)
  await untilWaiting(others)
  t.same(others.waits, [version])
  t.equal(headOf(await get(history)), before)
  t.equal(serveFromMemory(parts, new ParsedRequest(readOfTarget(history))), undefined, 'a full look-up decides')
  others.catchUp()
  t.equal(headOf(await reading), version)
  t.equal(headOf(await get(history)), version)
})

t.test('a read of a version that others lack carries a head that has it, once they do', async t => {
  const { others, get, grow } = await start(t)
  const version = grow()
  const target = `/v1/accounts/0x1/modules?ledger_version=${version}`
  const reading = get(target)
  await untilWaiting(others)
  const again = get(target)
  others.catchUp()
  t.equal(headOf(await reading), version)
  t.equal(headOf(await again), version)
})

t.test('a process that lapses while a read waits responds 503, and fetches nothing after it', async t => {
  const { others, get, grow, sandbox } = await start(t)
  await get(history)
  grow()
  const reading = get(latest)
  await untilWaiting(others)
  others.isLapsed = true
  others.catchUp()
  await t.rejects(reading, new Error('lapsed'))
  sandbox.requests.reset()
  await t.rejects(get(history), new Error('lapsed'))
  t.equal(sandbox.requests.total, 0)
})

t.test('a process that lapses ends the body that it would have sent', async t => {
  const { others, get, parts } = await start(t)
  const outcome = await get(latest)
  if (outcome.name === 'hit') throw new Error('a latest read is no hit')
  const rest = new Readable({ read: () => {} })
  const fetched = { ...outcome.fetched, response: { ...outcome.fetched.response, rest } }
  others.isLapsed = true
  await t.rejects(reachInAll(parts, others, readOfTarget(latest), { ...outcome, fetched }), new Error('lapsed'))
  t.ok(rest.destroyed)
})

t.test('a hit is 503 where this process lapses meanwhile', async t => {
  const { others, get } = await start(t)
  await get(history)
  const reach = others.reach.bind(others)
  others.reach = async version => {
    if (version !== undefined) others.isLapsed = true
    await reach(version)
  }
  await t.rejects(get(history), new Error('lapsed'))
})

t.test('a memoised response is sent only while others have its head', async t => {
  const { others, get, parts } = await start(t)
  await get(history)
  const parsed = new ParsedRequest(readOfTarget(history))
  const preferences = { ifNoneMatch: undefined, acceptEncoding: undefined }
  const hit = serveFromMemory(parts, parsed)
  if (hit === undefined) throw new Error('no hit')
  parsed.memoise(parts, hit, preferences, { status: 200, rawHeaders: [], body: undefined })
  t.ok(parsed.getMemo(parts, preferences))
  others.isLapsed = true
  t.equal(parsed.getMemo(parts, preferences), undefined)
})

t.test('a page, whose versions are unknown, waits for the newest head that it may show', async t => {
  const { others, get, grow } = await start(t)
  const page = '/v1/accounts/0x1/events/0x1::block::BlockResource/new_block_events?start=0'
  t.equal((await get(page)).name, 'miss')
  const version = grow()
  const reading = get(latest)
  await untilWaiting(others)
  const hit = get(page)
  await until(() => others.waits.length === 2, 'the hit waits')
  others.catchUp()
  t.equal(headOf(await hit), version)
  t.equal(headOf(await reading), version)
})

t.test('unknown routes wait too, but for what may have written', async t => {
  const { others, grow, parts } = await start(t)
  const forward = async (method: string): Promise<number> => {
    const request = { method, target: '/v1/-/healthy', headers: {}, callerHeaders: {}, body: undefined }
    return (await forwardUnknownRoute(parts, request, noClient, new AbortController().signal)).status
  }
  grow()
  const reading = forward('GET')
  await untilWaiting(others)
  others.catchUp()
  t.equal(await reading, 200)
  others.reach = async () => {
    throw unavailableError('lapsed')
  }
  await t.rejects(forward('GET'), new Error('lapsed'))
  others.reach = async () => await new Promise(() => {})
  t.not(await forward('POST'), 503, 'what may have written does not wait')
})

t.test('an error carries no head while others may lack it', async t => {
  const { others, parts } = await start(t)
  const { responseBuilder } = listenerContextOf(parts)
  const names = (): readonly string[] => responseBuilder.respondWithError(unavailableError('x'), true).rawHeaders
  t.ok(names().includes('X-NODE-LEDGER-VERSION'))
  others.isLapsed = true
  t.notOk(names().includes('X-NODE-LEDGER-VERSION'))
})
