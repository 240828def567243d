import { setTimeout as pause } from 'node:timers/promises'
import { type Tally } from '../model/tally.js'
import { type SeededRandom } from '../model/seeded-random.js'
import { type SimulatedUpstream } from '../simulation/simulated-upstream.js'
import { type RedisProcess } from '../redis-server.js'
import { waitUnlessAborted } from './operator.js'

const redisFaults = ['restart', 'freeze', 'flush', 'cut', 'cut'] as const

/** Makes Redis lose its data, hang, stop, or drop its connections, one after another. */
export async function injectRedisFaults (
  redis: RedisProcess,
  chance: SeededRandom,
  tally: Tally,
  signal: AbortSignal
): Promise<void> {
  let deck: Array<typeof redisFaults[number]> = []
  while (await waitUnlessAborted(chance.integerBetween(500, 2500), signal)) {
    if (deck.length === 0) deck = chance.shuffled(redisFaults)
    const fault = deck.shift() ?? 'flush'
    tally.note(`fault: redis ${fault}`)
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
  upstreams: readonly SimulatedUpstream[],
  chance: SeededRandom,
  tally: Tally,
  signal: AbortSignal
): Promise<void> {
  while (await waitUnlessAborted(chance.integerBetween(2000, 5000), signal)) {
    const slow = chance.shuffled(upstreams).slice(0, chance.integerBetween(1, upstreams.length))
    await Promise.all(slow.map(async upstream => {
      await upstream.runExclusively(async () => {
        if (signal.aborted) return
        tally.note('fault: slow')
        // Delays finished responses: a response made late would belong to a moment that the model does not know.
        upstream.injectFault({ kind: 'slow', late: true, ms: chance.integerBetween(100, 600), share: 0.7 })
        await pause(chance.integerBetween(500, 1500))
        upstream.recover()
      })
    }))
  }
}
