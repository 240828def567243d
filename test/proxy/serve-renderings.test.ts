import t, { type Test } from 'tap'
import { type ProxyParts } from '../../src/http/send-response.js'
import { serveRead } from '../../src/proxy/serve-read.js'
import { readOfTarget, resolvedContextAt as proxyAt, settingsOf } from '../support/proxy-context.js'
import { type UpstreamState, headAt, stamps, startChangingUpstream } from '../support/stub-upstream.js'

const modules = '/v1/accounts/0x1/modules?ledger_version=500'
// Head of another chain: lower, at a later time.
const otherChain = { ...headAt(100), 'x-aptos-ledger-timestampusec': '9000000' }

t.test('an old rendering is fetched again, and served if no upstream responds within 500 ms', async t => {
  const { state, ...stub } = await startChangingUpstream(t)
  const clock = { ms: 0 }
  const { context, serve } = await proxyAt(t, stub.url, clock)
  t.same(await serve(), ['miss', '[1]'])
  state.release = 'bbbb'
  await context.resolveChain()
  state.respond = () => {}
  const started = performance.now()
  const burst = Array.from({ length: 5 }, async () => await serve())
  t.same(await Promise.all(burst), Array(5).fill(['hit_memory', '[1]']), 'a silent upstream')
  const tookMs = performance.now() - started
  t.ok(tookMs > 450 && tookMs < 2000, `${Math.round(tookMs)} ms for all five`)
  t.same(await serve(), ['hit_memory', '[1]'])
  t.equal(stub.requests.length, 2, 'a failed refresh is not retried at every hit')
  clock.ms = 10_000
  state.respond = response => {
    response.writeHead(500, stamps()).end()
  }
  t.same(await serve(), ['hit_memory', '[1]'], 'a failing upstream')
})

t.test('a new rendering replaces the old one for all concurrent reads', async t => {
  const { state, url } = await startChangingUpstream(t)
  const { context, serve } = await proxyAt(t, url)
  t.same(await serve(), ['miss', '[1]'])
  state.release = 'bbbb'
  await context.resolveChain()
  const missed: string[] = []
  context.metrics.missed = (_endpoint, cause) => missed.push(cause)
  t.same(await Promise.all([serve(), serve()]), [['miss', '[2]'], ['collapsed', '[2]']])
  t.same(missed, ['expired'], 'the cause of the miss is the old rendering')
  t.same(await serve(), ['hit_memory', '[2]'])
})

/** Stores an entry, and begins to refresh it for a new release; the upstream does not respond yet. */
async function startRefresh (
  t: Test,
  pruned: object = {}
): Promise<{ state: UpstreamState, context: ProxyParts, reading: ReturnType<typeof serveRead> }> {
  const { state, url } = await startChangingUpstream(t)
  const { context: parts, serve } = await proxyAt(t, url)
  const context = { ...parts, settings: settingsOf({ pruned }) }
  await serve()
  state.release = 'bbbb'
  await context.resolveChain()
  const arrived = new Promise<void>(resolve => {
    state.respond = () => {
      resolve()
    }
  })
  const reading = serveRead(context, readOfTarget(modules))
  reading.catch(() => {})
  await arrived
  return { state, context, reading }
}

t.test('a version pruned during the refresh of its rendering is served as pruned, or 410', async t => {
  for (
    const pruned of [{ serveCached: true }, { serveCached: false }, { serveCached: false, answerLocally: false }]
  ) {
    const { state, context, reading } = await startRefresh(t, pruned)
    state.stamps = { 'x-aptos-ledger-oldest-version': '600' }
    state.respond = response => {
      response.writeHead(410, stamps(state.stamps)).end()
    }
    await context.resolveChain()
    if (pruned.serveCached) {
      t.match(await reading, { name: 'hit', kind: 'pruned', position: { oldest: { version: 600n } } })
    } else if (pruned.answerLocally === false) t.match(await reading, { fetched: { response: { status: 410 } } })
    else await t.rejects(reading, { code: 'version_pruned' })
  }
})

t.test('a reset detected while a rendering is refreshed invalidates the old chain\'s entry', async t => {
  const { state, context, reading } = await startRefresh(t)
  state.stamps = otherChain
  state.respond = response => {
    response.writeHead(404, { 'content-type': 'application/json', ...stamps(otherChain) }).end(
      '{"error_code":"version_not_found"}'
    )
  }
  await context.resolveChain()
  t.match(await reading, { name: /miss|collapsed/, position: { head: { version: 100n } } })
})
