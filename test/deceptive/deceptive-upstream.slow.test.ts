import t, { type Test } from 'tap'
import { effectOn, faultsOfLie, startDeceived, tryLies } from '../support/hostile/deception.js'
import { liesTried, type LieGroup, readKinds } from '../support/hostile/lies.js'
import { until } from '../support/until.js'

const timeoutMs = 1500
const mostGrownMb = 300

for (const { promise, lies } of liesTried('on reads')) {
  t.test(`on every kind of read: ${promise}`, async t => {
    await tryLies(t, lies, readKinds.length)
  })
}

for (const { promise, lies } of ['slowly', 'in bulk'].flatMap(liesTried)) {
  t.test(promise, async t => {
    const before = process.memoryUsage().rss
    for (const lie of lies) await tryEach(t, lie)
    const grownMb = (process.memoryUsage().rss - before) / 1e6
    t.ok(grownMb < mostGrownMb, `the process grew by ${Math.round(grownMb)} MB`)
  })
}

/** Sends a false answer to each kind of read and measures the time. */
async function tryEach (t: Test, lie: LieGroup['lies'][number]): Promise<void> {
  const stage = await startDeceived(t, { cache: { maxEntryMb: 1 }, upstream: { timeoutMs } })
  const { upstream } = stage.deception
  const tries = readKinds.map(kind => async () => {
    const seen = effectOn(kind, lie)
    if (seen === undefined) return
    const began = performance.now()
    t.same(await faultsOfLie(stage, kind, lie, seen), [], `${lie.name}: ${kind.name}`)
    const tookMs = performance.now() - began
    t.ok(tookMs < 10 * timeoutMs, `${lie.name}: ${kind.name} took ${Math.round(tookMs)} ms`)
  })
  // Sends floods one after the other: they share their process with the upstream that makes them.
  if (lie.endless === undefined) await Promise.all(tries.map(async attempt => await attempt()))
  else for (const attempt of tries) await attempt()
  await until(() => upstream.scripts.size === 0, 'the upstream has sent its false responses')
}
