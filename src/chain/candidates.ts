import { Anchors } from './anchors.js'
import { type ControlState } from '../cluster/control.js'
import { type Verdict } from './marks.js'
import { type KnownGeneration, type UpstreamChain } from './words.js'

/** A generation that a chain may be of, and what is known of it. */
export type Candidate = readonly [generation: number, known: KnownGeneration]

/** The generations that replicas know, the highest first. */
export function candidatesIn ({ generations }: ControlState): Candidate[] {
  return inOrder([...generations])
}

/** The highest first; of two words on one generation the later. */
export function inOrder (candidates: readonly Candidate[]): Candidate[] {
  return [...new Map(candidates)].sort(([a], [b]) => b - a)
}

/**
 * Of candidates, the highest first, the first that is proven; else the very highest, where nothing speaks against it.
 */
export async function choose (
  candidates: readonly Candidate[],
  verdictOn: (known: KnownGeneration) => Promise<Verdict>
): Promise<Candidate | undefined> {
  let unproven: Candidate | undefined
  for (const [at, candidate] of candidates.entries()) {
    const verdict = await verdictOn(candidate[1])
    if (verdict === 'same') return candidate
    if (at === 0 && verdict === 'unknown') unproven = candidate
  }
  return unproven
}

/** What upstreams alone are known to have had: the control key has lost it, or it is too old to stand there. */
export function rememberedAlone ({ generations }: ControlState, upstreams: readonly UpstreamChain[]): Candidate[] {
  return upstreams.filter(({ generation }) => !generations.has(generation)).map((
    { generation, anchors, head }
  ) => [generation, { anchors, head }])
}

/**
 * Whether what is remembered of an upstream alone counts only with proof: its address may bear another chain by now. Of
 * a chain without marks, as of nodes that do not serve blocks by height, the position must do; what bears neither, as
 * older versions wrote it, proves nothing.
 */
export function needsProof ({ anchors, head }: KnownGeneration): boolean {
  return anchors.length > 0 || head === undefined
}

/**
 * The generation that upstreams were last known to have, or a later one that is surely of the same chain; undefined
 * where two chains could be meant.
 */
export function rememberedIn (state: ControlState, upstreams: readonly UpstreamChain[]): Candidate | undefined {
  // What came by a file is nobody's word yet.
  const [highest] = candidatesIn(state).filter(([, { isUnproven }]) => isUnproven !== true)
  const mapped = Math.max(...upstreams.map(({ generation }) => generation))
  const known = state.generations.get(mapped) ??
    upstreams.find(({ generation, head }) => generation === mapped && head !== undefined)
  if (known === undefined) return undefined
  if (highest === undefined || highest[0] <= mapped) return [mapped, known]
  return new Anchors(known.anchors).isSameAs(highest[1].anchors) === true ? highest : undefined
}
