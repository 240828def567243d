import { Anchors } from '../ledger/anchors.js'
import { type ControlState } from './control.js'
import { type Verdict } from './marks.js'
import { type KnownGeneration } from './words.js'

/** A generation that a chain may be of, and what is known of it. */
export type Candidate = readonly [generation: number, known: KnownGeneration]

/** What is known of a generation that nobody has told of. */
export const nothingKnown: KnownGeneration = { anchors: [], head: undefined }

/** The generations that replicas know, the highest first. */
export function candidatesIn ({ generations }: ControlState): Candidate[] {
  return inOrder([...generations])
}

/** The highest first; of two words on one generation the later. */
export function inOrder (candidates: readonly Candidate[]): Candidate[] {
  return [...new Map(candidates)].sort(([a], [b]) => b - a)
}

/** Of candidates, the highest first, the first that is proven; else the very highest, where nothing speaks against it. */
export async function choose (candidates: readonly Candidate[], verdictOn: (known: KnownGeneration) => Promise<Verdict>): Promise<Candidate | undefined> {
  let unproven: Candidate | undefined
  for (const [at, candidate] of candidates.entries()) {
    const verdict = await verdictOn(candidate[1])
    if (verdict === 'same') return candidate
    if (at === 0 && verdict === 'unknown') unproven = candidate
  }
  return unproven
}

/** The generation that an upstream was last known to have, or a later one that is surely of the same chain; undefined where two chains could be meant. */
export function rememberedIn (state: ControlState, mapped: number): Candidate | undefined {
  const [highest] = candidatesIn(state)
  const remembered = state.generations.get(mapped)
  if (highest === undefined || highest[0] <= mapped) return [mapped, remembered ?? nothingKnown]
  return remembered !== undefined && new Anchors(remembered.anchors).isSameAs(highest[1].anchors) === true ? highest : undefined
}
