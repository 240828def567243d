import { Anchors } from '../chain/anchors.js'
import { type GenerationRegistry } from '../chain/generation-registry.js'
import { type FolderRegistry } from './disk-generations.js'

/**
 * Registry of Redis and of a folder together: a number is taken if either has it. While Redis is unreachable the folder
 * alone proves its generations, which no other replica can take.
 */
export function combineGenerationRegistries (redis: GenerationRegistry, disk: FolderRegistry): GenerationRegistry {
  return {
    read: async chainId => {
      const own = await disk.read(chainId)
      const shared = await redis.read(chainId).catch(error => {
        if (own.generations.size === 0) throw error
        return own
      })
      // Of two records with one number the shared one counts; the folder's entries need its anchors too.
      const merged = new Map([...own.generations, ...shared.generations])
      for (const [generation, { anchors, head }] of own.generations) {
        const other = merged.get(generation)
        if (other !== undefined && new Anchors(anchors).isSameChain(other.anchors) === true) {
          merged.set(generation, { anchors: [...anchors, ...other.anchors], head: other.head ?? head })
        }
      }
      return { generations: merged }
    },
    claim: async (chainId, generation, known) => {
      if ((await disk.read(chainId)).generations.has(generation)) return false
      return await redis.claim(chainId, generation, known) && await disk.claim(chainId, generation, known)
    },
    rememberedUpstreams: async () => await redis.rememberedUpstreams().catch(() => [])
  }
}
