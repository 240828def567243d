import { type RedisClient } from '../redis/create-client.js'
import { intervalKeyOf, pageKeyOf } from '../api/read.js'
import { type RedisBlockIndex } from './redis-block-index.js'
import { decodeStreamName } from './stream-name-entry.js'
import { type RedisPageIndex } from './redis-page-index.js'
import { type FoundEntry } from './tier.js'
import { type Invalidation } from './invalidation.js'

/** Redis keys of invalidated entries, and the removal of their index records. */
export interface EntryLocations {
  readonly keys: readonly string[]
  readonly removeRecords: (client: RedisClient) => Promise<void>
}

/** Locates everything that an invalidation covers. */
export async function locateEntries (
  client: RedisClient,
  { keys, intervals }: Invalidation,
  ofBlocks: RedisBlockIndex,
  ofPages: RedisPageIndex
): Promise<EntryLocations> {
  const [filed, listed] = await Promise.all([
    Promise.all(
      intervals.filter(({ kind }) => kind === 'versions').map(async ({ family, first }) =>
        (await ofBlocks.find(client, family, first)).blocks.map(block => ({ family, block }))
      )
    ),
    Promise.all(
      intervals.filter(({ kind }) => kind === 'events').map(async events => await ofPages.find(client, events))
    )
  ])
  return {
    keys: [
      ...keys,
      ...filed.flat().map(({ family, block }) => intervalKeyOf(family, block.height)),
      ...listed.flat().map(pageKeyOf)
    ],
    removeRecords: async from => {
      await Promise.all([
        ...filed.flat().map(async ({ family, block }) => {
          await ofBlocks.remove(from, family, block, block.height)
        }),
        ...listed.flat().map(async page => {
          await ofPages.remove(from, page)
        })
      ])
    }
  }
}

/** Extends an invalidation by the streams that Redis knows for its paths. */
export async function addKnownStreams (
  what: Invalidation,
  get: (key: string) => Promise<FoundEntry | undefined>
): Promise<Invalidation> {
  const pages = what.intervals.filter(({ kind }) => kind === 'events')
  const names = await Promise.all(pages.map(async page => ({ page, name: await get(page.family) })))
  const more = names.flatMap(({ page, name }) => {
    const family = name && decodeStreamName(name.stored)
    return family === undefined || pages.some(known => known.family === family) ? [] : { ...page, family }
  })
  return more.length === 0 ? what : { ...what, intervals: [...what.intervals, ...more] }
}
