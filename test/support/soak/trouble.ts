import { setTimeout as pause } from 'node:timers/promises'
import { type Chance } from '../fleet/chance.js'
import { type FleetNode } from '../fleet/node.js'
import { type RedisProcess } from '../redis-process.js'
import { waited } from './operator.js'
import { type SoakTally } from './tally.js'

const redisFaults = ['restart', 'freeze', 'flush', 'cut', 'cut'] as const

/** Has Redis lose all that it keeps, hang, be away, or end its connections, one after another. */
export async function troubleRedis (
  redis: RedisProcess,
  chance: Chance,
  tally: SoakTally,
  signal: AbortSignal
): Promise<void> {
  let deck: Array<typeof redisFaults[number]> = []
  while (await waited(chance.between(500, 2500), signal)) {
    if (deck.length === 0) deck = chance.shuffled(redisFaults)
    const fault = deck.shift() ?? 'flush'
    tally.fault(`redis ${fault}`)
    switch (fault) {
      case 'restart':
        if (chance.is(0.5)) await redis.stop()
        else await redis.kill()
        await waited(chance.between(100, 2000), signal)
        await redis.start()
        break
      case 'freeze':
        redis.freeze()
        await waited(chance.between(100, 2000), signal)
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

/** Has one node after another take its time: nothing is wrong, but those who wait for it become many. */
export async function slowNodes (
  nodes: readonly FleetNode[],
  chance: Chance,
  tally: SoakTally,
  signal: AbortSignal
): Promise<void> {
  while (await waited(chance.between(2000, 5000), signal)) {
    const slow = chance.shuffled(nodes).slice(0, chance.between(1, nodes.length))
    await Promise.all(slow.map(async node => {
      await node.inTurn(async () => {
        if (signal.aborted) return
        tally.fault('slow')
        // As old as it was asked for, or it would be of another moment than any that its node is known by.
        node.sicken({ kind: 'slow', late: true, ms: chance.between(100, 600), share: 0.7 })
        await pause(chance.between(500, 1500))
        node.recover()
      })
    }))
  }
}
