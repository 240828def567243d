import { type StampedPosition } from '../api/position.js'
import { within } from '../within.js'
import { type Candidate, candidatesIn, choose, inOrder, needsProof, rememberedAlone } from './candidates.js'
import { type Control, type ControlState } from '../cluster/control.js'
import { type GenerationOptions } from './generation-options.js'
import { type Marks } from './marks.js'
import { type KnownGeneration, nothingKnown } from './words.js'

/** Which generation a chain is, and whether the other replicas could be asked. */
export interface Decision {
  readonly generation: number
  readonly known: KnownGeneration
  readonly isAgreed: boolean
}

// How long a new generation waits for marks to be published with.
const firstMarksMs = 500
// Each attempt that fails has another replica's generation to look at, so that two are hardly ever needed.
const maxAttempts = 5

/**
 * Settles which generation a node's chain is: the highest that it may be, or a new one above all. Of two replicas that
 * begin one at the same time the first has its number; the other looks at what that has become.
 */
export async function settleOn (
  stamped: StampedPosition,
  { tracker, control }: GenerationOptions,
  marks: Marks,
  ruledOut: number
): Promise<Decision> {
  const { position } = stamped
  const own: Candidate[] = tracker.chain === undefined
    ? []
    : [[tracker.generation, { anchors: marks.list, head: tracker.stamped }]]
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    const heard = control && await heardAt(control, position.chainId).catch(() => undefined)
    const { state, shared, alone } = heard ?? { state: undefined, shared: [], alone: [] }
    const told = [...alone, ...shared]
    for (const [generation] of told) tracker.heardOf(generation)
    // A number that nobody shares may have been another chain's, and be forgotten for being so old.
    const unshared = own.filter(([generation]) => told.every(([other]) => other < generation))
    const candidates = inOrder([...unshared, ...told]).filter(([generation]) => generation > ruledOut)
    const toProve = new Set(
      [...alone.filter(([, known]) => needsProof(known)), ...shared.filter(([, known]) => known.isUnproven)].map((
        [, known]
      ) => known)
    )
    const chosen = await choose(candidates, async known => {
      const verdict = await marks.verdictOn(known, position)
      return verdict === 'unknown' && toProve.has(known) ? 'other' : verdict
    })
    if (chosen === undefined) marks.replace([])
    else marks.add(chosen[1].anchors)
    const decided = {
      known: chosen?.[1] ?? nothingKnown,
      generation: chosen?.[0] ?? (candidates.length === 0 && ruledOut === 0 ? tracker.generation : tracker.next)
    }
    if (control === undefined || state?.generations.has(decided.generation) === true) {
      return { ...decided, isAgreed: true }
    }
    // A generation that bore no marks could be taken by others for any chain's.
    await within(firstMarksMs, marks.spread(position))
    if (state === undefined) return { ...decided, isAgreed: false }
    if (
      await control.claim(position.chainId, decided.generation, { anchors: marks.list, head: stamped }).catch(() =>
        false
      )
    ) return { ...decided, isAgreed: true }
  }
  return { generation: tracker.next, known: nothingKnown, isAgreed: false }
}

/**
 * The generations that the control key tells of, and those that only this process's upstreams are remembered to have
 * had.
 */
async function heardAt (
  control: Control,
  chainId: number
): Promise<{ state: ControlState, shared: Candidate[], alone: Candidate[] }> {
  const [state, upstreams] = await Promise.all([control.read(chainId), control.upstreams()])
  return {
    state,
    shared: candidatesIn(state),
    alone: rememberedAlone(state, upstreams.filter(upstream => upstream.chainId === chainId))
  }
}
