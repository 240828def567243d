import { Anchors } from './anchors.js'
import { type RegisteredGenerations } from './generation-registry.js'
import { type ChainVerdict } from './anchored-chain.js'
import { type GenerationRecord, type UpstreamChain } from './generation-record.js'

/** A generation that a chain may belong to, and its known anchors and head. */
export type KnownGeneration = readonly [generation: number, known: GenerationRecord]

/** Lists the registered generations, highest first. */
export function candidatesIn ({ generations }: RegisteredGenerations): KnownGeneration[] {
  return sortByGeneration([...generations])
}

/** Sorts candidates, highest first; of two with the same number the last one wins. */
export function sortByGeneration (candidates: readonly KnownGeneration[]): KnownGeneration[] {
  return [...new Map(candidates)].sort(([a], [b]) => b - a)
}

/** Picks the first candidate proven to be the same chain; `unknown` where one could not be compared now. */
export async function chooseCandidate (
  candidates: readonly KnownGeneration[],
  judge: (candidate: KnownGeneration) => Promise<ChainVerdict>
): Promise<KnownGeneration | 'unknown' | undefined> {
  let fallback: 'unknown' | undefined
  for (const candidate of candidates) {
    const verdict = await judge(candidate)
    if (verdict === 'same') return candidate
    if (verdict === 'unknown') fallback = verdict
  }
  return fallback
}

/** Lists generations that only the upstream records name, because the registry lost them. */
export function rememberedOnlyIn (
  { generations }: RegisteredGenerations,
  upstreams: readonly UpstreamChain[]
): KnownGeneration[] {
  return upstreams.filter(({ generation }) => !generations.has(generation)).map((
    { generation, anchors, head }
  ) => [generation, { anchors, head }])
}

/**
 * Picks the generation that upstreams last had, or a higher one proven to be the same chain; undefined where two chains
 * are possible.
 */
export function lastGenerationOfUpstreams (
  state: RegisteredGenerations,
  upstreams: readonly UpstreamChain[]
): KnownGeneration | undefined {
  const [highest] = candidatesIn(state)
  const highestRemembered = Math.max(...upstreams.map(({ generation }) => generation))
  const remembered = upstreams.filter(({ generation }) => generation === highestRemembered)
  const published = state.generations.get(highestRemembered)
  // Another chain may have claimed the number after the registry lost it.
  if (published !== undefined && !remembered.every(each => mayBeSameChain(each, published))) return undefined
  const known = published ?? remembered.find(({ head }) => head !== undefined)
  if (known === undefined) return undefined
  if (highest === undefined || highest[0] <= highestRemembered) return [highestRemembered, known]
  return new Anchors(known.anchors).isSameChain(highest[1].anchors) === true ? highest : undefined
}

// Records without anchors come from upstreams without blocks by height, or from older versions of varve.
function mayBeSameChain (remembered: GenerationRecord, published: GenerationRecord): boolean {
  return remembered.anchors.length === 0 || new Anchors(remembered.anchors).isSameChain(published.anchors) === true
}
