/** Vary of every known read: an endpoint has two media types and several codings. */
export const varyOfReads = 'Accept, Accept-Encoding'

/**
 * The value of Vary: the given names and, while CORS lines depend on it, Origin, each name once; undefined where
 * nothing varies.
 */
export function varyOf (names: string | undefined, variesByOrigin: boolean): string | undefined {
  const byName = new Map<string, string>()
  for (const item of [...names?.split(',') ?? [], ...(variesByOrigin ? ['Origin'] : [])]) {
    const name = item.trim()
    if (name !== '' && !byName.has(name.toLowerCase())) byName.set(name.toLowerCase(), name)
  }
  // Stands for every name, and no name may stand beside it (RFC 9110, section 12.5.5).
  if (byName.has('*')) return '*'
  return byName.size === 0 ? undefined : [...byName.values()].join(', ')
}
