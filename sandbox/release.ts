import { digestBytes } from './seeded-digest.js'

/** Releases of known rank, oldest first; each renders more members of an ABI than the one before. */
export const releases = {
  events: '1111111111111111111111111111111111111111',
  enums: '2222222222222222222222222222222222222222',
  variants: '3333333333333333333333333333333333333333'
} as const

/** Members of an ABI that a release renders beyond the oldest form. */
export interface Rendering {
  readonly isEnum: boolean
  readonly variants: boolean
}

/** Returns the rendering of a release; an unknown release has a rank derived from its hash. */
export function renderingOf (release: string): Rendering {
  const known = Object.values<string>(releases).indexOf(release)
  const rank = known >= 0 ? known : digestBytes('release', release).readUInt8() % 3
  return { isEnum: rank >= 1, variants: rank >= 2 }
}
