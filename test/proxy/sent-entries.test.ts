import t from 'tap'
import { type FetchLease } from '../../src/cache/coalescer.js'
import { type FoundEntry } from '../../src/cache/tier.js'
import { invalidationOfRead } from '../../src/proxy/local-invalidator.js'
import { readOfTarget, resolvedContextAt } from '../support/proxy-context.js'
import { respondOk, startStubUpstream } from '../support/stub-upstream.js'

const target = '/v1/accounts/0x1/modules?ledger_version=500'

t.test('a process takes an entry that another one sends, unless the read was purged meanwhile', async t => {
  let asked = 0
  const stub = await startStubUpstream(t, (_request, response) => {
    respondOk(response, `["${++asked}"]`)
  })
  const [holder, other, purged] = [
    await resolvedContextAt(t, stub.url),
    await resolvedContextAt(t, stub.url),
    await resolvedContextAt(t, stub.url)
  ]
  // On a clock that stands still every upstream is near.
  for (const { context } of [holder, other, purged]) {
    Object.defineProperty(context.upstreamPool, 'isNear', { value: false })
  }
  let sent: FoundEntry | undefined
  const lease: FetchLease = {
    hasWaited: false,
    found: undefined,
    sendsEntry: true,
    end: (_isStored, how) => {
      sent ??= how?.found
    }
  }
  Object.assign(holder.context, { fetchLeases: { take: async () => lease } })
  t.same(await holder.serve(target), ['miss', '["1"]'])
  t.match(sent, { stored: { body: Buffer.from('["1"]') }, ttlMs: Infinity })
  const waited: FetchLease = { hasWaited: true, found: sent, sendsEntry: false, end: () => {} }
  Object.assign(other.context, { fetchLeases: { take: async () => waited } })
  t.same(await other.serve(target), ['collapsed', '["1"]'])
  t.equal(asked, 1)
  const takeAfterPurge = async (): Promise<FetchLease> => {
    const { invalidator, tracker: { space } } = purged.context
    if (space !== undefined) await invalidator.invalidate(space, invalidationOfRead(readOfTarget(target), space))
    return waited
  }
  Object.assign(purged.context, { fetchLeases: { take: takeAfterPurge } })
  t.same(await purged.serve(target), ['miss', '["2"]'])
})

t.test('no lease is asked for where an upstream responds sooner than processes agree', async t => {
  const stub = await startStubUpstream(t, (_request, response) => {
    respondOk(response, '[]')
  })
  const { context, serve } = await resolvedContextAt(t, stub.url)
  let asked = 0
  const take = async (): Promise<undefined> => {
    asked++
  }
  Object.assign(context, { fetchLeases: { take } })
  // On a clock that stands still every upstream is near.
  await serve(target)
  t.equal(asked, 0)
  Object.defineProperty(context.upstreamPool, 'isNear', { value: false })
  await serve(target.replace('500', '501'))
  t.equal(asked, 1)
})
