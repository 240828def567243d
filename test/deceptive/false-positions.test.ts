import t from 'tap'
import { type DeceivedVarve, index, startDeceived } from '../support/hostile/deception.js'
import { answerTo, type Lie, liesTried, readKindOf, trueHead } from '../support/hostile/lies.js'
import { WireClient } from '../support/hostile/wire-client.js'
import { until } from '../support/until.js'

const later = {
  ...trueHead,
  'x-aptos-ledger-version': '1000010',
  'x-aptos-ledger-timestampusec': '5000100',
  'x-aptos-block-height': '100001'
}

/** Reads history for the first time, with a false answer or the true one; returns the position and its truth. */
async function readNew ({ varve, deception }: DeceivedVarve, lie?: Lie): Promise<[isTrue: boolean, at: string]> {
  const read = deception.read(readKindOf('modules'))
  if (lie !== undefined) deception.upstream.scripts.set(read.target, answerTo(read, lie))
  const client = new WireClient(varve.url)
  const { status, body, headers } = await client.send(read.request)
  client.close()
  return [status === 200 && body === read.body, headers.get('x-node-ledger-version') ?? '']
}

/** Sends a false answer to a poll. */
async function lieToPoll ({ deception }: DeceivedVarve, lie: Lie): Promise<void> {
  deception.upstream.scripts.set('/v1', answerTo(index, lie))
  const before = deception.countOf('/v1')
  await until(() => deception.countOf('/v1') > before + 1, `${lie.name}: it got a request`)
}

/** Moves the upstream on and waits until reads succeed at its head. */
async function recovers (stage: DeceivedVarve, name: string): Promise<void> {
  stage.deception.head = later
  await until(
    async () => {
      const [isTrue, at] = await readNew(stage)
      return isTrue && at === later['x-aptos-ledger-version']
    },
    `${name}: the truth is shown again`,
    5000
  )
}

for (const { promise, lies } of liesTried('in polls')) {
  t.test(promise, async t => {
    const stage = await startDeceived(t, { head: { pollMs: 20 }, cache: { maxEntryMb: 1 } })
    const { scripts, received } = stage.deception.upstream
    for (const lie of lies) {
      await lieToPoll(stage, lie)
      t.same(await readNew(stage), [true, trueHead['x-aptos-ledger-version']], lie.name)
      t.notOk(received.some(request => request.includes('evil')), 'no other target is requested')
      scripts.delete('/v1')
    }
    await recovers(stage, 'after all of them')
  })
}

for (const { promise, lies } of liesTried('for a moment')) {
  t.test(promise, async t => {
    for (const lie of lies) {
      for (const at of ['a poll', 'a read']) {
        const stage = await startDeceived(t, { head: { pollMs: 20 } })
        await readNew(stage)
        if (at === 'a read') await readNew(stage, lie)
        else await lieToPoll(stage, lie)
        stage.deception.upstream.scripts.clear()
        await recovers(stage, `${lie.name}, reported at ${at}`)
      }
      t.pass(lie.name)
    }
  })
}
