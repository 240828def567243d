import { type RedisClient } from '../redis/connection-options.js'
import { blockKeyOf } from '../api/read.js'
import { type RedisBlockIndex } from './redis-block-index.js'
import { decodeStreamName } from './stream-name-entry.js'
import { type FoundEntry } from './redis-tier-options.js'
import { redisPageKeyOf, type RedisPageIndex } from './redis-page-index.js'
import { type Invalidation } from './invalidation.js'

/** Redis keys of invalidated entries, and the removal of their index records. */
export interface EntryLocations {
  readonly keys: readonly string[]
  readonly removeRecords: (client: RedisClient) => Promise<void>
}

/** Locates everything that an invalidation covers. */
export async function locateEntries (
  client: RedisClient,
  { keys, blocks, pages = [] }: Invalidation,
  ofBlocks: RedisBlockIndex,
  ofPages: RedisPageIndex
): Promise<EntryLocations> {
  const [filed, listed] = await Promise.all([
    Promise.all(
      blocks.map(async ({ blocks, version }) =>
        (await ofBlocks.find(client, blocks, version)).blocks.map(block => ({ blocks, block }))
      )
    ),
    Promise.all(pages.map(async events => await ofPages.find(client, events)))
  ])
  return {
    keys: [
      ...keys,
      ...filed.flat().map(({ blocks, block }) => blockKeyOf(blocks, block.height)),
      ...listed.flat().map(redisPageKeyOf)
    ],
    removeRecords: async from => {
      await Promise.all([
        ...filed.flat().map(async ({ blocks, block }) => {
          await ofBlocks.remove(from, blocks, block, block.height)
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
  const { pages = [] } = what
  const names = await Promise.all(pages.map(async page => ({ page, name: await get(page.stream) })))
  const more = names.flatMap(({ page, name }) => {
    const stream = name && decodeStreamName(name.stored)
    return stream === undefined || pages.some(known => known.stream === stream) ? [] : { ...page, stream }
  })
  return more.length === 0 ? what : { ...what, pages: [...pages, ...more] }
}
