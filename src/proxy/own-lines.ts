import { specificationFamily } from '../ledger/position.js'
import { type Answer, headerOf } from '../reads/answer.js'

/** The header lines that belong to an answer and travel with it, the cursor and the gas used, under the names that clients are shown. */
export function ownLines (answer: Answer, emit: readonly ('node' | 'upstream')[], family: string | undefined): string[] {
  if (family === undefined) return []
  return ['cursor', 'gas-used'].flatMap(name => {
    const value = headerOf(answer, family + name)
    if (value === undefined) return []
    return familiesOf(emit, family).flatMap(prefix => [prefix === specificationFamily ? (prefix + name).toUpperCase() : prefix + name, value])
  })
}

/** The prefixes to send names under: the specification's, and the node's own where it differs. */
export function familiesOf (emit: readonly ('node' | 'upstream')[], family: string | undefined): string[] {
  const families = emit.map(side => side === 'node' ? specificationFamily : family ?? specificationFamily)
  return [...new Set(families)]
}
