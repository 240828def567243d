import { setTimeout as pause } from 'node:timers/promises'
import { type Fault } from '#sandbox'
import { sendRequest } from '../client.js'
import { type SeededRandom } from '../model/seeded-random.js'
import { type RedisProcess } from '../redis-server.js'
import { until } from '../until.js'
import { type Soak, token } from './soak.js'

const nodeFaults: readonly Fault[] = [
  { kind: 'reset' },
  { kind: 'hang' },
  { kind: 'cutShort', share: 0.5 },
  { kind: 'cutShort', chunked: true, share: 0.5 },
  { kind: 'garbage' },
  { kind: 'error', code: 'internal_error' },
  { kind: 'error', code: 'internal_error', status: 503, share: 0.3 },
  { kind: 'rateLimited', retryAfter: '1' },
  { kind: 'html', share: 0.5 },
  { kind: 'panic200', share: 0.5 },
  { kind: 'slow', late: true, ms: 400, share: 0.7 },
  { kind: 'lag', blocks: 20 }
]
const redisFaults = ['restart', 'freeze', 'flush', 'cut'] as const

/** Injects faults of nodes and Redis, purges, reloads and scrapes until the end; then waits until all is healthy. */
export async function runTrouble (
  soak: Soak,
  redis: RedisProcess,
  chance: SeededRandom,
  signal: AbortSignal
): Promise<void> {
  soak.isTroubled = true
  await Promise.all([
    troubleNodes(soak, chance.fork(), signal),
    troubleRedis(soak, redis, chance.fork(), signal),
    purge(soak, chance.fork(), signal),
    reload(soak, signal),
    scrape(soak, signal)
  ])
  await until(async () => {
    const { degraded } = await (await fetch(`${soak.program.adminUrl}/readyz`)).json() as { degraded: string[] }
    return degraded.length === 0
  }, 'every part is healthy again')
  soak.isTroubled = false
}

// One node at a time, so that the others can serve.
async function troubleNodes ({ nodes, tally }: Soak, chance: SeededRandom, signal: AbortSignal): Promise<void> {
  let deck: Fault[] = []
  while (await waited(chance.integerBetween(200, 2500), signal)) {
    if (deck.length === 0) deck = chance.shuffled(nodeFaults)
    const fault = deck.pop() ?? { kind: 'reset' }
    const { faults } = nodes[chance.integerBelow(nodes.length)] ?? { faults: undefined }
    tally.note(`fault: ${fault.kind}`)
    faults?.add(fault)
    await waited(chance.integerBetween(200, 2000), signal)
    faults?.clear()
  }
}

async function troubleRedis (
  { tally }: Soak,
  redis: RedisProcess,
  chance: SeededRandom,
  signal: AbortSignal
): Promise<void> {
  let deck: Array<typeof redisFaults[number]> = []
  while (await waited(chance.integerBetween(500, 2500), signal)) {
    if (deck.length === 0) deck = chance.shuffled(redisFaults)
    const fault = deck.pop() ?? 'flush'
    tally.note(`fault: redis ${fault}`)
    switch (fault) {
      case 'restart':
        await redis.kill()
        await waited(chance.integerBetween(100, 2000), signal)
        await redis.start()
        break
      case 'freeze':
        redis.freeze()
        await waited(chance.integerBetween(100, 2000), signal)
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

/** Purges one read or, now and then, everything. */
async function purge (soak: Soak, chance: SeededRandom, signal: AbortSignal): Promise<void> {
  while (await waited(chance.integerBelow(3000), signal)) {
    const { target: url, body } = soak.draw(chance)
    const method = body === undefined ? 'GET' : 'POST'
    const wanted = chance.happens(0.1) ? { all: true } : { method, url, ...(body !== undefined && { body }) }
    const { status, body: text } = await sendRequest(soak.program.adminUrl, '/purge', {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
      body: JSON.stringify(wanted)
    })
    soak.tally.note('fault: purge')
    // Accepts 202: purges of an unreachable Redis are applied later.
    const isTaken = (status === 200 || status === 202) && text.startsWith('{"purged":true')
    if (!isTaken) soak.tally.fail(`a purge returns ${status}`, `${JSON.stringify(wanted)} ${text}`)
  }
}

async function reload (soak: Soak, signal: AbortSignal): Promise<void> {
  for (let round = 1; await waited(7000, signal); round++) {
    soak.tally.note('fault: reload')
    await soak.reload(round)
  }
}

/** Scrapes and reads the status, as monitoring does. */
async function scrape ({ program, tally }: Soak, signal: AbortSignal): Promise<void> {
  const pages = { '/metrics': /^varve_upstream_up\{/m, '/status.json': /^\{"ready":true/, '/readyz': /^\{"ready":true/ }
  while (!signal.aborted) {
    for (const [page, pattern] of Object.entries(pages)) {
      const { status, body } = await sendRequest(program.adminUrl, page)
      if (status !== 200 || !pattern.test(body)) tally.fail(`${page} says ${status}`, body.slice(0, 300))
      await waited(200, signal)
    }
  }
}

/** Waits; resolves with false if the run ends before. */
async function waited (ms: number, signal: AbortSignal): Promise<boolean> {
  return await pause(ms, true, { signal }).catch(() => false)
}
