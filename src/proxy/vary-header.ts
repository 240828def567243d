/** Vary of every known read: an endpoint has two media types and several codings. */
export const varyOfReads = 'Accept, Accept-Encoding'

/** Merges Vary names and, when CORS headers depend on it, Origin; undefined when nothing varies. */
export function varyOf (names: string | undefined, variesByOrigin: boolean): string | undefined {
  const byName = new Map<string, string>()
  for (const item of [...names?.split(',') ?? [], ...(variesByOrigin ? ['Origin'] : [])]) {
    const name = item.trim()
    if (name !== '' && !byName.has(name.toLowerCase())) byName.set(name.toLowerCase(), name)
  }
  // `*` covers every name and must be the only one (RFC 9110, section 12.5.5).
  if (byName.has('*')) return '*'
  return byName.size === 0 ? undefined : [...byName.values()].join(', ')
}
