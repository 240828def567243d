import { mastersOf } from './masters.js'
import { type RedisClient } from './place.js'

/** Some of the keys that match, and about what share of all keys was looked at by then. */
export interface Scanned {
  readonly keys: readonly string[]
  readonly share: number
}

/** Asks Redis, again where that is worth while. */
export type AskRedis = <T>(work: (client: RedisClient) => Promise<T>) => Promise<T>

// A step of so many keys takes Redis well under a millisecond.
const keysPerStep = 200

/**
 * Goes through the keys that begin with a text (of letters, digits, blanks and `_.:-`, which mean themselves), on every
 * server that is written to, step by step, so that no step keeps others waiting. Keys that are there all the while come
 * at least once; one may come twice.
 */
export async function* scan (ask: AskRedis, beginning: string): AsyncGenerator<Scanned> {
  // Each has a cursor of its own; one that leaves meanwhile can be asked no more.
  const servers = [...await ask(async client => await Promise.resolve(mastersOf(client)))]
  for (const [nth, server] of servers.entries()) {
    const all = Math.max(1, await ask(async () => await server.dbsize()))
    let cursor = '0'
    let looked = 0
    do {
      const [next, keys] = await ask(async () =>
        await server.scan(cursor, 'MATCH', `${beginning}*`, 'COUNT', keysPerStep)
      )
      cursor = next
      looked = cursor === '0' ? all : Math.min(all, looked + keysPerStep)
      yield { keys, share: (nth + looked / all) / servers.length }
    } while (cursor !== '0')
  }
}
