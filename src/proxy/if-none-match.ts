/**
 * Returns the first tag that If-None-Match lists, by weak comparison (RFC 9110, section 13.1.2); undefined if none
 * matches. Calls `tags` only if the header is present.
 */
export function matchingTag (ifNoneMatch: string | undefined, tags: () => readonly string[]): string | undefined {
  if (ifNoneMatch === undefined) return undefined
  const [best] = tags()
  if (ifNoneMatch.trim() === '*') return best
  const clientTags = new Set(ifNoneMatch.split(',').map(tag => tag.trim().replace(/^W\//, '')))
  return tags().find(tag => clientTags.has(tag))
}
