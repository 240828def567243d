import { flattenHeader } from '../cache/print-headers.js'
import { headerNamesOf, headerSuffix, ownHeaderFamily } from '../api/position.js'
import { type UpstreamResponse, headerOf } from '../api/upstream-response.js'
import { upstreamCursorOf, pinCursor } from '../api/pinned-cursor.js'
import { type Read } from '../api/read.js'
import { type Outcome } from './outcomes.js'
import { type Config } from '../config/schema.js'

/** Header values of one response: docs/node-behaviour.md, "Position headers". */
export interface CursorAndGas {
  readonly cursor: string | undefined
  readonly gasUsed: string | undefined
}

const none: readonly string[] = []

/** Reads the values from an upstream response; unwraps a cursor that another varve pinned. */
export function readCursorAndGas (response: UpstreamResponse, family: string | undefined): CursorAndGas {
  if (family === undefined) return { cursor: undefined, gasUsed: undefined }
  const names = headerNamesOf(family)
  const cursor = headerOf(response, names.cursor)
  return {
    cursor: cursor === undefined ? undefined : upstreamCursorOf(cursor),
    gasUsed: headerOf(response, names.gasUsed)
  }
}

/** Returns the values as flat headers in every emitted family. */
export function makeCursorAndGasHeaders (
  { cursor, gasUsed }: CursorAndGas,
  emit: readonly ('node' | 'upstream')[],
  family: string | undefined
): readonly string[] {
  if (cursor === undefined && gasUsed === undefined) return none
  return [[headerSuffix.cursor, cursor], [headerSuffix.gasUsed, gasUsed]].flatMap(([name = '', value]) => {
    if (value === undefined) return []
    return emittedFamiliesOf(emit, family).flatMap(
      prefix => [flattenHeader(prefix === ownHeaderFamily ? (prefix + name).toUpperCase() : prefix + name), value]
    )
  })
}

/** Reads the values from flat headers. */
export function readCursorAndGasHeaders (lines: readonly string[]): CursorAndGas {
  return {
    cursor: lines.find((_line, at) => isValueOf(headerSuffix.cursor, lines, at)),
    gasUsed: lines.find((_line, at) => isValueOf(headerSuffix.gasUsed, lines, at))
  }
}

/** Pins a version in the cursor of flat headers; returns the same array if there is nothing to pin. */
export function pinCursorHeaders (lines: readonly string[], version: bigint | undefined): readonly string[] {
  if (version === undefined) return lines
  return lines.some((_line, at) => isValueOf(headerSuffix.cursor, lines, at))
    ? lines.map((line, at) => isValueOf(headerSuffix.cursor, lines, at) ? pinCursor(version, line) : line)
    : lines
}

// Returns true for a value of a header with this suffix; flat headers alternate names and values.
function isValueOf (suffix: string, lines: readonly string[], at: number): boolean {
  return at % 2 === 1 && lines[at - 1]?.toLowerCase().endsWith(`-${suffix}`) === true
}

/** Prefixes of the header names to send: varve's own, and the upstream's if that differs. */
export function emittedFamiliesOf (emit: readonly ('node' | 'upstream')[], family: string | undefined): string[] {
  const families = emit.map(side => side === 'node' ? ownHeaderFamily : family ?? ownHeaderFamily)
  return [...new Set(families)]
}

/**
 * Returns the version to pin in the cursor of a response, so that all pages of a listing share it; undefined if the
 * upstream's cursor is sent.
 */
export function cursorVersionOf (
  { pages }: Pick<Config, 'pages'>,
  read: Read,
  outcome: Outcome
): bigint | undefined {
  if (read.hasPinnedCursor) return read.ledgerVersion
  if (!pages.pinned || !read.endpoint.takesCursor || read.ledgerVersion !== undefined) return undefined
  // Pins nothing for a latest response without a position, whose version is unknown.
  const { followedAt } = outcome
  if (followedAt !== undefined) return followedAt.head.version
  const readAt = outcome.name === 'hit' ? outcome.entry.readAt : outcome.fetched.response.stamped?.position
  return readAt?.head.version
}
