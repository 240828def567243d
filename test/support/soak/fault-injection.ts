import { setTimeout as pause } from 'node:timers/promises'
import { type SeededRandom } from '../simulation/seeded-random.js'
import { type SimulatedUpstream } from '../simulation/simulated-upstream.js'
import { type RedisProcess } from '../redis-process.js'
import { waitUnlessAborted } from './operator.js'
import { type SoakTally } from './soak-tally.js'

const redisFaults = ['restart', 'freeze', 'flush', 'cut', 'cut'] as const

/** Makes Redis lose its data, hang, stop, or drop its connections, one after another. */
export async function injectRedisFaults (
  redis: RedisProcess,
  chance: SeededRandom,
  tally: SoakTally,
  signal: AbortSignal
): Promise<void> {
  let deck: Array<typeof redisFaults[number]> = []
  while (await waitUnlessAborted(chance.integerBetween(500, 2500), signal)) {
    if (deck.length === 0) deck = chance.shuffled(redisFaults)
    const fault = deck.shift() ?? 'flush'
    tally.fault(`redis ${fault}`)
    switch (fault) {
      case 'restart':
        if (chance.happens(0.5)) await redis.stop()
        else await redis.kill()
        await waitUnlessAborted(chance.integerBetween(100, 2000), signal)
        await redis.start()
        break
      case 'freeze':
        redis.freeze()
        await waitUnlessAborted(chance.integerBetween(100, 2000), signal)
        redis.thaw()
        break
      case 'flush':
        await redis.client.flushall().catch(() => {})
        break
      case 'cut':
        for (const type of ['NORMAL', 'PUBSUB'] as const) {
          await redis.client.call('CLIENT', 'KILL', 'TYPE', type, 'SKIPME', 'YES').catch(() => {})
        }
    }
  }
}

/** Slows one upstream after another: nothing fails, but many reads wait. */
export async function slowUpstreams (
  nodes: readonly SimulatedUpstream[],
  chance: SeededRandom,
  tally: SoakTally,
  signal: AbortSignal
): Promise<void> {
  while (await waitUnlessAborted(chance.integerBetween(2000, 5000), signal)) {
    const slow = chance.shuffled(nodes).slice(0, chance.integerBetween(1, nodes.length))
    await Promise.all(slow.map(async node => {
      await node.runExclusively(async () => {
        if (signal.aborted) return
        tally.fault('slow')
        // Delays finished responses: a response made late would belong to a moment that the model does not know.
        node.injectFault({ kind: 'slow', late: true, ms: chance.integerBetween(100, 600), share: 0.7 })
        await pause(chance.integerBetween(500, 1500))
        node.recover()
      })
    }))
  }
}
