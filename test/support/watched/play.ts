import { once } from 'node:events'
import { connect } from 'node:net'
import { until } from '../until.js'
import { firstReplicaReads } from './first-replica.js'
import { Facts, type Place, type Scene, shared } from './scene.js'
import { secondReplicaReads } from './second-replica.js'
import { Traffic } from './sent.js'
import { hang, type Hanging, shortReplicaReads } from './short-replica.js'
import { type Stage } from './stage.js'
import { prunedSoon, readWhileStill } from './still-chain.js'

/** What was done, and what still hangs. */
export interface Played extends Hanging {
  readonly scene: Scene
}

/**
 * Everything that can befall reads, once, with what each is answered foreseen; at its end the chain stands still, and
 * reads hang.
 */
export async function play (stage: Stage, place: Place): Promise<Played> {
  const { nodes: { whole }, growth, first, second, tight } = stage
  const base = whole.ledger.oldest.blockHeight + BigInt(place.above)
  const version = (nth: number): bigint => whole.ledger.block(base + BigInt(nth)).firstVersion
  const scene: Scene = { stage, traffic: new Traffic(), facts: new Facts(), place, lowest: version(0), version }
  scene.facts.add('entries of tight before', await tight.metric('varve_cache_entries{tier="memory"}'))
  growth.go()
  const isCut = halfAHead(scene)
  const before = await shared(first)
  await firstReplicaReads(scene)
  await until(
    async () => await shared(first) - before === scene.facts.of('kept by first'),
    'the first has shared what it read'
  )
  await secondReplicaReads(scene)
  await readWhileStill(scene, await prunedSoon(stage))
  await shortReplicaReads(scene)
  await isCut
  growth.halt()
  const { head, oldest } = whole.ledger
  for (const varve of [first, second, tight]) {
    await until(
      async () =>
        await varve.metric('varve_ledger_version') === Number(head.version) &&
        await varve.metric('varve_ledger_oldest_version') === Number(oldest.version),
      'every replica knows where the chain stands'
    )
  }
  const hanging = await hang(scene)
  const entries = await Promise.all(
    [first, second, tight].map(async varve => await varve.metric('varve_cache_entries{tier="memory"}') ?? 0)
  )
  scene.facts.add('entries after', entries.reduce((sum, count) => sum + count))
  scene.facts.add('entries of tight after', entries[2])
  return { scene, ...hanging }
}

/** A client that begins a request and does not go on: it is told so, and cut off. */
async function halfAHead ({ stage: { first }, traffic, facts }: Scene): Promise<void> {
  const { hostname, port } = new URL(first.url)
  const begun = performance.now()
  const socket = connect(Number(port), hostname)
  socket.write('GET /v1 HTTP/1.1\r\n')
  const [told] = await once(socket, 'data')
  await once(socket.resume(), 'close')
  if (!String(told).startsWith('HTTP/1.1 408')) throw new Error(String(told))
  traffic.all.push({
    instance: new URL(first.adminUrl).host,
    endpoint: 'other',
    outcome: 'rejected',
    status: 408,
    seconds: (performance.now() - begun) / 1000
  })
  facts.add('cut for their head')
}
