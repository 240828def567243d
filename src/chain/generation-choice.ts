import { type ResponsePosition } from '../api/position.js'
import { withTimeout } from '../with-timeout.js'
import {
  type KnownGeneration,
  candidatesIn,
  chooseCandidate,
  sortByGeneration,
  rememberedOnlyIn
} from './generation-candidates.js'
import { type GenerationRegistry, type RegisteredGenerations } from './generation-registry.js'
import { type GenerationDependencies } from './generation-dependencies.js'
import { type AnchoredChain } from './anchored-chain.js'
import { type GenerationRecord, emptyGenerationRecord } from './generation-record.js'

/** Chosen generation of a chain; `isAgreed` where the registry confirms it, or there is none. */
export interface GenerationChoice {
  readonly generation: number
  readonly known: GenerationRecord
  readonly isAgreed: boolean
}

// Limits how long reads wait for the first anchors of a new generation; it is claimed once anchors are read.
const firstAnchorsMs = 500
// Each failed claim means that another replica took the number, so two attempts nearly always suffice.
const maxAttempts = 5

/**
 * Picks the highest generation proven to be of the chain, or claims a new one with anchors. Without proof the choice is
 * not agreed, and is repeated.
 */
export async function chooseGeneration (
  stamped: ResponsePosition,
  { tracker, registry }: GenerationDependencies,
  identity: AnchoredChain,
  ruledOut: number
): Promise<GenerationChoice> {
  const { position } = stamped
  const own: KnownGeneration[] = tracker.chain === undefined
    ? []
    : [[tracker.generation, { anchors: identity.anchors, head: tracker.stamped }]]
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    const read = registry && await readCandidates(registry, position.chainId).catch(() => undefined)
    const { state, published, remembered } = read ?? { state: undefined, published: [], remembered: [] }
    const recorded = [...remembered, ...published]
    for (const [generation] of recorded) tracker.noteGeneration(generation)
    // A number without a record may have belonged to another chain and expired.
    const unpublished = own.filter(([generation]) => recorded.every(([other]) => other < generation))
    const candidates = sortByGeneration([...unpublished, ...recorded]).filter(([generation]) => generation > ruledOut)
    const chosen = await chooseCandidate(candidates, async candidate => {
      const [, known] = candidate
      if (!unpublished.includes(candidate)) {
        return identity.isSameChain(known.anchors) === true ? 'same' : await identity.verifyAt(known, position)
      }
      // No other chain has an unpublished number of our own.
      return await identity.verifyAt(known, position) === 'other' ? 'other' : 'same'
    })
    if (chosen === 'unknown') {
      const generation = tracker.generation > ruledOut ? tracker.generation : tracker.nextGeneration
      return { generation, known: emptyGenerationRecord, isAgreed: false }
    }
    if (chosen === undefined) identity.replace([])
    else identity.add(chosen[1].anchors)
    const choice = {
      known: chosen?.[1] ?? emptyGenerationRecord,
      generation: chosen?.[0] ??
        (candidates.length === 0 && ruledOut === 0 ? tracker.generation : tracker.nextGeneration)
    }
    if (registry === undefined || state?.generations.has(choice.generation) === true) {
      return { ...choice, isAgreed: true }
    }
    // Other replicas could take a generation without anchors for any chain.
    const hasRead = await withTimeout(firstAnchorsMs, identity.readAnchors(position))
    const isProvable = hasRead === true || identity.anchors.length > 0
    if (state === undefined || !isProvable) return { ...choice, isAgreed: false }
    if (
      await registry.claim(position.chainId, choice.generation, { anchors: identity.anchors, head: stamped }).catch(
        () => false
      )
    ) return { ...choice, isAgreed: true }
  }
  return { generation: tracker.nextGeneration, known: emptyGenerationRecord, isAgreed: false }
}

/** Reads the registered generations, and those that only this process's upstream records name. */
async function readCandidates (
  registry: GenerationRegistry,
  chainId: number
): Promise<{ state: RegisteredGenerations, published: KnownGeneration[], remembered: KnownGeneration[] }> {
  const [state, upstreams] = await Promise.all([registry.read(chainId), registry.rememberedUpstreams()])
  return {
    state,
    published: candidatesIn(state),
    remembered: rememberedOnlyIn(state, upstreams.filter(upstream => upstream.chainId === chainId))
  }
}
