import { type RedisClient } from '../redis/place.js'
import { blockKeyOf } from '../api/read.js'
import { type SharedBlocks } from './shared-blocks.js'
import { streamIn } from './shared-name.js'
import { type Found } from './shared-options.js'
import { keyOfPage, type SharedPages } from './shared-pages.js'
import { type ToForget } from './to-share.js'

/** Where all is in Redis that is to be forgotten: the keys of its entries, and how their records are removed. */
export interface Whereabouts {
  readonly keys: readonly string[]
  readonly removeRecords: (client: RedisClient) => Promise<void>
}

/** Looks for all that is to be forgotten. */
export async function whereaboutsOf (
  client: RedisClient,
  { keys, blocks, pages = [] }: ToForget,
  ofBlocks: SharedBlocks,
  ofPages: SharedPages
): Promise<Whereabouts> {
  const [filed, listed] = await Promise.all([
    Promise.all(
      blocks.map(async ({ blocks, version }) =>
        (await ofBlocks.find(client, blocks, version)).blocks.map(block => ({ blocks, block }))
      )
    ),
    Promise.all(
      pages.map(async ({ stream, ...events }) =>
        (await ofPages.findAll(client, stream, events)).map(page => ({ stream, page }))
      )
    )
  ])
  return {
    keys: [
      ...keys,
      ...filed.flat().map(({ blocks, block }) => blockKeyOf(blocks, block.height)),
      ...listed.flat().map(({ stream, page }) => keyOfPage(stream, page))
    ],
    removeRecords: async from => {
      await Promise.all([
        ...filed.flat().map(async ({ blocks, block }) => {
          await ofBlocks.remove(from, blocks, block, block.height)
        }),
        ...listed.flat().map(async ({ stream, page }) => {
          await ofPages.remove(from, stream, page)
        })
      ])
    }
  }
}

/** The same to forget, and where paths lead that Redis knows of. */
export async function named (what: ToForget, get: (key: string) => Promise<Found | undefined>): Promise<ToForget> {
  const { pages = [] } = what
  const names = await Promise.all(pages.map(async page => ({ page, name: await get(page.stream) })))
  const more = names.flatMap(({ page, name }) => {
    const stream = name && streamIn(name.stored)
    return stream === undefined || pages.some(known => known.stream === stream) ? [] : { ...page, stream }
  })
  return more.length === 0 ? what : { ...what, pages: [...pages, ...more] }
}
