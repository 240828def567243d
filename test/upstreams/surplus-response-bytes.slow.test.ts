import t, { type Test } from 'tap'
import { faultsIn, otherOf, startDeceived, tryLies } from '../support/hostile/deception.js'
import { answerTo, liesTried, type Read, type ReadKind, readKinds, readOf } from '../support/hostile/lies.js'
import { openWire, type WireClient } from '../support/hostile/wire-client.js'
import { until } from '../support/until.js'

// A whole answer to another read, which every read of the kind would accept as its own.
const poison = (kind: ReadKind): string => answerTo(readOf(kind, 66_666)).bytes
// One connection to the upstream, so that the next read meets what is left over on it.
const oneSlot = { upstream: { maxConcurrent: 1, timeoutMs: 5000 } }

for (const { promise, lies } of liesTried('with surplus')) {
  t.test(promise, async t => await tryLies(t, lies, 4))

  t.test('bytes on an idle upstream connection are discarded, and the connection closes', async t => {
    const stage = await startDeceived(t, oneSlot)
    const surplus = new Set(lies.map(({ after }) => after))
    for (const after of surplus) {
      for (const kind of readKinds) {
        const read = stage.deception.read(kind)
        const client = openWire(t, stage.varve.url)
        const more = answerTo(read, { after }).bytes.slice(answerTo(read).bytes.length)
        await readTrue(t, client, read, 'before')
        const { upstream } = stage.deception
        const { last: connection, received } = upstream
        let requests = -1
        const send = (): void => {
          requests = received.length
          connection?.write(more, 'latin1')
        }
        send()
        await until(() => {
          // A request of varve itself was under way, and interim bytes are part of its response.
          if (received.length > requests) send()
          // Blank lines before a response mean nothing (RFC 9112, section 2.2).
          return more.trim() === '' || connection?.destroyed === true
        }, 'varve drops that connection')
        for (const when of ['later', 'after that']) await readTrue(t, client, stage.deception.read(kind), when)
      }
    }
  })
}

t.test('varve discards bytes that an upstream sent before the request, even arriving together', async t => {
  const stage = await startDeceived(t, oneSlot)
  for (const kind of readKinds) {
    for (let round = 0; round < 5; round++) {
      const client = openWire(t, stage.varve.url)
      await readTrue(t, client, stage.deception.read(kind), 'before')
      const next = stage.deception.read(kind)
      // Sends both before varve reads the socket again.
      const pending = client.send(next.request)
      stage.deception.upstream.last?.write(poison(kind), 'latin1')
      t.same(faultsIn('truth', next, await pending), [], `${kind.name}, at the same time`)
      await readTrue(t, client, stage.deception.read(kind), 'after that')
    }
  }
})

t.test('a read that waits for a connection never gets bytes left over on it', async t => {
  const stage = await startDeceived(t, oneSlot)
  const { deception } = stage
  for (const kind of readKinds.filter(({ stored, endpoint }) => stored || endpoint === 'other')) {
    const [read, waiting] = [deception.read(kind), deception.read(otherOf(kind))]
    deception.upstream.scripts.set(read.target, { bytes: '', then: 'hang' })
    const first = openWire(t, stage.varve.url).send(read.request)
    await until(() => deception.countOf(read.target) === 1, 'the upstream got the request')
    const { last: connection } = deception.upstream
    const second = openWire(t, stage.varve.url).send(waiting.request)
    await until(async () => await stage.varve.metric('varve_upstream_waiting{upstream="node"}') === 1, 'a read waits')
    connection?.write(answerTo(read).bytes + poison(kind), 'latin1')
    t.same(faultsIn('truth', read, await first), [], `${kind.name}: the read in progress`)
    t.same(faultsIn('truth', waiting, await second), [], `${kind.name}: the waiting read`)
    deception.upstream.scripts.clear()
  }
})

/** Reads a target: it gets its own response and no more. */
async function readTrue (t: Test, client: WireClient, read: Read, when: string): Promise<void> {
  t.same(faultsIn('truth', read, await client.send(read.request)), [], `${read.kind.name}, ${when}`)
  t.equal(client.text, '', 'one response')
}
