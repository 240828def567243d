import { flat } from '../cache/flat.js'
import { specificationFamily } from '../ledger/position.js'
import { type Answer, headerOf } from '../reads/answer.js'

/** What belongs to an answer and travels with it: where its next page begins, and what computing it cost. */
export interface OwnValues {
  readonly cursor: string | undefined
  readonly gasUsed: string | undefined
}

const none: readonly string[] = []

/** Reads them from an answer. */
export function ownValues (answer: Answer, family: string | undefined): OwnValues {
  const valueOf = (name: string): string | undefined => family === undefined ? undefined : headerOf(answer, family + name)
  return { cursor: valueOf('cursor'), gasUsed: valueOf('gas-used') }
}

/** Their header lines, under the names that clients are shown. */
export function ownLines ({ cursor, gasUsed }: OwnValues, emit: readonly ('node' | 'upstream')[], family: string | undefined): readonly string[] {
  if (cursor === undefined && gasUsed === undefined) return none
  return [['cursor', cursor], ['gas-used', gasUsed]].flatMap(([name = '', value]) => {
    if (value === undefined) return []
    return familiesOf(emit, family).flatMap(prefix => [flat(prefix === specificationFamily ? (prefix + name).toUpperCase() : prefix + name), value])
  })
}

/** The prefixes to send names under: the specification's, and the node's own where it differs. */
export function familiesOf (emit: readonly ('node' | 'upstream')[], family: string | undefined): string[] {
  const families = emit.map(side => side === 'node' ? specificationFamily : family ?? specificationFamily)
  return [...new Set(families)]
}
