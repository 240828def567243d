import { flattenString } from '../cache/flatten-string.js'
import { specificationFamily } from '../api/position.js'
import { type UpstreamResponse, headerOf } from '../api/upstream-response.js'
import { upstreamCursorOf, pinCursor } from '../api/pinned-cursor.js'

/** What belongs to an answer and travels with it: where its next page begins, and what computing it cost. */
export interface PerResponseValues {
  readonly cursor: string | undefined
  readonly gasUsed: string | undefined
}

const none: readonly string[] = []

/** Reads them from an answer. */
export function readPerResponseValues (response: UpstreamResponse, family: string | undefined): PerResponseValues {
  const valueOf = (name: string): string | undefined =>
    family === undefined ? undefined : headerOf(response, family + name)
  const cursor = valueOf('cursor')
  return { cursor: cursor === undefined ? undefined : upstreamCursorOf(cursor), gasUsed: valueOf('gas-used') }
}

/** Their header lines, under the names that clients are shown. */
export function makePerResponseHeaders (
  { cursor, gasUsed }: PerResponseValues,
  emit: readonly ('node' | 'upstream')[],
  family: string | undefined
): readonly string[] {
  if (cursor === undefined && gasUsed === undefined) return none
  return [['cursor', cursor], ['gas-used', gasUsed]].flatMap(([name = '', value]) => {
    if (value === undefined) return []
    return headerFamiliesOf(emit, family).flatMap(
      prefix => [flattenString(prefix === specificationFamily ? (prefix + name).toUpperCase() : prefix + name), value]
    )
  })
}

/** The cursor among lines; undefined where there is none. */
export function readCursorHeader (lines: readonly string[]): string | undefined {
  const at = lines.findIndex((_line, nth) => isCursorValue(lines, nth))
  return at === -1 ? undefined : lines[at]
}

/**
 * Lines with these among them, their cursor carrying the version at which the listing goes on; the very same where
 * there is nothing to carry.
 */
export function pinCursorHeaders (lines: readonly string[], version: bigint | undefined): readonly string[] {
  if (version === undefined) return lines
  return lines.some((_line, at) => isCursorValue(lines, at))
    ? lines.map((line, at) => isCursorValue(lines, at) ? pinCursor(version, line) : line)
    : lines
}

// Values stand behind their names.
function isCursorValue (lines: readonly string[], at: number): boolean {
  return at % 2 === 1 && lines[at - 1]?.toLowerCase().endsWith('-cursor') === true
}

/** Prefixes of the header names to send: varve's own, and the upstream's where it differs. */
export function headerFamiliesOf (emit: readonly ('node' | 'upstream')[], family: string | undefined): string[] {
  const families = emit.map(side => side === 'node' ? specificationFamily : family ?? specificationFamily)
  return [...new Set(families)]
}
