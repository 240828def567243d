/**
 * The tag of a form that a client holds already, by weak comparison (RFC 9110, section 13.1.2): of the tags that would
 * do, the best first. It takes precedence over dates, of which varve sends none; the tags are made only where a client
 * asks.
 */
export function matchingTag (ifNoneMatch: string | undefined, tags: () => readonly string[]): string | undefined {
  if (ifNoneMatch === undefined) return undefined
  const [best] = tags()
  if (ifNoneMatch.trim() === '*') return best
  const clientTags = new Set(ifNoneMatch.split(',').map(tag => tag.trim().replace(/^W\//, '')))
  return tags().find(tag => clientTags.has(tag))
}
