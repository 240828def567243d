import { Anchors } from './anchors.js'
import { type RegistryState } from './generation-registry.js'
import { type ChainVerdict } from './anchored-chain.js'
import { type KnownGeneration, type UpstreamChain } from './known-generation.js'

/** A generation that a chain may belong to, and its known anchors and head. */
export type GenerationCandidate = readonly [generation: number, known: KnownGeneration]

/** Lists the registered generations, highest first. */
export function candidatesIn ({ generations }: RegistryState): GenerationCandidate[] {
  return sortByGeneration([...generations])
}

/** Sorts candidates, highest first; of two with the same number the last one wins. */
export function sortByGeneration (candidates: readonly GenerationCandidate[]): GenerationCandidate[] {
  return [...new Map(candidates)].sort(([a], [b]) => b - a)
}

/** Picks the first candidate proven to be the same chain; else the highest one, unless its verdict is `other`. */
export async function chooseCandidate (
  candidates: readonly GenerationCandidate[],
  judge: (known: KnownGeneration) => Promise<ChainVerdict>
): Promise<GenerationCandidate | undefined> {
  let fallback: GenerationCandidate | undefined
  for (const [at, candidate] of candidates.entries()) {
    const verdict = await judge(candidate[1])
    if (verdict === 'same') return candidate
    if (at === 0 && verdict === 'unknown') fallback = candidate
  }
  return fallback
}

/** Lists generations that only the upstream records name, because the registry lost them. */
export function rememberedOnlyIn (
  { generations }: RegistryState,
  upstreams: readonly UpstreamChain[]
): GenerationCandidate[] {
  return upstreams.filter(({ generation }) => !generations.has(generation)).map((
    { generation, anchors, head }
  ) => [generation, { anchors, head }])
}

/**
 * Returns true if a remembered generation needs proof, because its address may serve another chain by now. Without
 * anchors a head suffices.
 */
export function needsProof ({ anchors, head }: KnownGeneration): boolean {
  return anchors.length > 0 || head === undefined
}

/**
 * Picks the generation that upstreams last had, or a higher one proven to be the same chain; undefined where two chains
 * are possible.
 */
export function rememberedGenerationIn (
  state: RegistryState,
  upstreams: readonly UpstreamChain[]
): GenerationCandidate | undefined {
  const [highest] = candidatesIn(state)
  const highestRemembered = Math.max(...upstreams.map(({ generation }) => generation))
  const known = state.generations.get(highestRemembered) ??
    upstreams.find(({ generation, head }) => generation === highestRemembered && head !== undefined)
  if (known === undefined) return undefined
  if (highest === undefined || highest[0] <= highestRemembered) return [highestRemembered, known]
  return new Anchors(known.anchors).isSameChain(highest[1].anchors) === true ? highest : undefined
}
