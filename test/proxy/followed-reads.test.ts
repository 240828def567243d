import { type ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import { Follower } from '../../src/follow/follower.js'
import { LedgerKnowledge } from '../../src/follow/ledger-knowledge.js'
import { auditRepeatedHit } from '../../src/proxy/audit.js'
import { cacheStatusOf, type Hit, outcomeNameOf } from '../../src/proxy/outcomes.js'
import { ParsedRequest } from '../../src/proxy/parsed-request.js'
import { type ReadClient } from '../../src/proxy/pinned-read.js'
import { type ProxyParts } from '../../src/http/send-response.js'
import { serveFromMemory, serveRead } from '../../src/proxy/serve-read.js'
import { ResponseBuilder } from '../../src/proxy/response-builder.js'
import { contextAt, readOfTarget, settingsOf } from '../support/proxy-context.js'
import { stampedAt, transactionAt } from '../support/tail.js'
import { startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'

const latest = readOfTarget('/v1/accounts/0x42')
const key = (latest.endpoint.dependsOn?.(latest) ?? [])[0]?.digest ?? 0n
const plain = { ifNoneMatch: undefined, acceptEncoding: undefined }

interface Followed {
  readonly context: ProxyParts
  readonly follower: Follower
  readonly clock: { ms: number }
  readonly requests: string[]
  readonly audits: string[]
  readonly observed: string[]
  /** Head of the upstream. */
  head: number
  body: string
  /** Runs a function once, before the next response. */
  beforeResponse(run: () => void): void
  /** Reads transactions up to a version, the last of which touches the account or not. */
  follow(version: number, touched?: bigint[]): void
  latest(client?: ReadClient): Promise<{ status: string, body: string, at: bigint | undefined }>
}

/** A proxy that follows an upstream whose transactions the test decides. */
async function followed (t: Test, { isServing = true, auditShare = 0 } = {}): Promise<Followed> {
  const state = { head: 100, body: '"one"', onRequest: undefined as (() => void) | undefined }
  const respond = (response: ServerResponse, body: string): void => {
    const { position: { head } } = stampedAt(state.head)
    response.writeHead(200, {
      'content-type': 'application/json',
      'x-aptos-chain-id': '4',
      'x-aptos-ledger-version': `${head.version}`,
      'x-aptos-ledger-oldest-version': '0',
      'x-aptos-ledger-timestampusec': `${head.timestampUsec}`,
      'x-aptos-epoch': '1',
      'x-aptos-block-height': `${head.blockHeight}`,
      'x-aptos-oldest-block-height': '0'
    }).end(body)
  }
  const stub = await startStubUpstream(t, (_request, response) => {
    const { onRequest } = state
    state.onRequest = undefined
    onRequest?.()
    respond(response, state.body)
  }, (_request, response) => {
    respond(response, '{"git_hash":"aaaa"}')
  })
  const clock = { ms: 1000 }
  const made = contextAt(t, stub.url, clock).context
  const audits: string[] = []
  const observed: string[] = []
  const follower = new Follower({
    now: () => clock.ms,
    maxAgeMs: 250,
    isServing,
    servedVersion: () => made.tracker.position?.head.version,
    onServedHead: stamped => {
      made.tracker.follow(stamped)
    },
    onState: () => {}
  }, new LedgerKnowledge(1024))
  const context: ProxyParts = {
    ...made,
    follower,
    metrics: {
      ...made.metrics,
      audited: result => audits.push(result),
      observed: (_endpoint, result) => observed.push(result)
    },
    settings: settingsOf({ audit: { share: auditShare, followedShare: auditShare } })
  }
  await made.resolveChain()
  follower.apply({ begins: true, transactions: [transactionAt(100)], stamped: stampedAt(100), sentAtMs: clock.ms })
  return {
    context,
    follower,
    clock,
    requests: stub.requests,
    audits,
    observed,
    get head () {
      return state.head
    },
    set head (version) {
      state.head = version
    },
    get body () {
      return state.body
    },
    set body (text) {
      state.body = text
    },
    beforeResponse: run => {
      state.onRequest = run
    },
    follow: (version, touched = []) => {
      state.head = Math.max(state.head, version)
      const from = Number(follower.head?.version) + 1
      const transactions = Array.from(
        { length: version - from + 1 },
        (_, nth) => transactionAt(from + nth, from + nth === version ? touched : [])
      )
      follower.apply({ begins: false, transactions, stamped: stampedAt(version), sentAtMs: clock.ms })
    },
    latest: async client => {
      const outcome = await serveRead(context, latest, client)
      const body = outcome.name === 'hit' ? outcome.entry.body : outcome.fetched.response.body
      return { status: outcomeNameOf(outcome), body: String(body), at: outcome.position?.head.version }
    }
  }
}

t.test('after a reset during its fetch a followed read is served on the new chain', async t => {
  for (const head of [110, 90]) {
    const proxy = await followed(t)
    proxy.beforeResponse(() => {
      proxy.head = head
      proxy.body = '"of the new chain"'
      proxy.follower.clear()
      proxy.context.tracker.reset(stampedAt(head))
    })
    t.same(await proxy.latest(), { status: 'forwarded', body: '"of the new chain"', at: BigInt(head) })
  }
})

t.test('a memo of a followed hit lasts as long as its head is new enough', async t => {
  const proxy = await followed(t)
  await proxy.latest()
  const parsed = new ParsedRequest(latest)
  const hit = serveFromMemory(proxy.context, parsed) as Hit
  t.equal(cacheStatusOf(hit), 'varve; hit; detail=followed')
  const response = new ResponseBuilder(proxy.context, 'revalidate').respond(latest, hit, plain)
  parsed.memoise(proxy.context, hit, plain, response)
  t.equal(parsed.getMemo(proxy.context, plain), response)
  t.equal(parsed.memoOutcome, 'hit_followed')
  proxy.clock.ms += 251
  t.equal(parsed.getMemo(proxy.context, plain), undefined)
  proxy.follow(101, [key])
  t.equal(parsed.getMemo(proxy.context, plain), undefined, 'another head')
})

t.test('a wrong followed hit is removed and stops following; a right one is equal', async t => {
  for (const [body, result] of [['"one"', 'equal'], ['"other"', 'different']] as const) {
    const proxy = await followed(t, { auditShare: 1 })
    await proxy.latest()
    proxy.follow(104)
    // Another read shows that the upstream has reached the head.
    await serveRead(proxy.context, readOfTarget('/v1/accounts/0x43?ledger_version=1'))
    proxy.body = body
    t.equal((await proxy.latest()).status, 'hit_followed')
    await until(() => proxy.audits.length > 0, 'it was audited')
    t.same(proxy.audits, [result])
    t.match(proxy.requests.at(-1), /ledger_version=104$/)
    t.equal(proxy.follower.state, result === 'equal' ? 'following' : 'stopped')
    t.equal(proxy.context.memory.entries, result === 'equal' ? 2 : 1)
  }
})

t.test('observing compares latest responses with what following would serve, and serves none of it', async t => {
  const proxy = await followed(t, { isServing: false })
  const observe = async (body: string, result: string): Promise<void> => {
    t.match(await proxy.latest(), { status: 'forwarded', body })
    await until(() => proxy.observed.length > 0, 'it was compared')
    t.same(proxy.observed.splice(0), [result])
  }
  await observe('"one"', 'unknown')
  proxy.follow(104)
  await observe('"one"', 'equal')
  proxy.follow(108, [key])
  await observe('"one"', 'unknown')
  t.equal(proxy.requests.length, 3)
  // The value changes above the followed head, where the old one was right.
  proxy.head = 110
  proxy.beforeResponse(() => {
    proxy.body = '"two"'
    proxy.beforeResponse(() => {
      proxy.body = '"one"'
    })
  })
  await observe('"two"', 'equal')
  t.match(proxy.requests.at(-1), /ledger_version=108$/)
  // An upstream that lags behind the followed head decides nothing.
  proxy.head = 111
  proxy.body = '"three"'
  proxy.beforeResponse(() => {
    proxy.beforeResponse(() => {
      proxy.head = 107
    })
  })
  await observe('"three"', 'unknown')
  proxy.body = '"one"'
  const entries = proxy.context.memory.entries
  proxy.follow(112)
  await observe('"one"', 'different')
  t.same([proxy.follower.state, proxy.audits], ['following', []])
  t.equal(proxy.context.memory.entries, entries + 1, 'the entry is right at its own version')
})

t.test('a hit from a memo is audited at the followed head too', async t => {
  const proxy = await followed(t, { auditShare: 1 })
  await proxy.latest()
  const { space } = proxy.context.tracker
  if (space !== undefined) auditRepeatedHit(proxy.context, new ParsedRequest(latest).pinnedTo(space), true)
  await until(() => proxy.audits.length > 0, 'it was audited')
  t.same(proxy.audits, ['equal'])
})

t.test('a latest read that waited for its client\'s rate limit takes what another stored meanwhile', async t => {
  const world = await followed(t)
  world.follow(101)
  const before = world.requests.length
  const waiting: ReadClient = {
    id: undefined,
    admit: async () => {
      await world.latest()
    }
  }
  t.match(await world.latest(waiting), { status: 'hit_followed', at: 101n })
  t.equal(world.requests.length, before + 1, 'one fetch serves both')
})
