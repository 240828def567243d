import { type z } from 'zod'

/**
 * Rejects two upstreams with one name, including default names by position. Runs beside the other checks, so the list
 * may still be invalid.
 */
export function rejectDuplicateNames (upstreams: readonly unknown[], context: z.RefinementCtx): void {
  rejectDuplicates(
    'upstreams',
    'name',
    upstreams.map((upstream, at) => textIn(upstream, 'name') ?? `node-${at + 1}`),
    context
  )
}

/** Rejects an upstream that is listed twice, because the second adds no redundancy but gets a share of the reads. */
export function rejectDuplicateUpstreams (upstreams: readonly unknown[], context: z.RefinementCtx): void {
  const identities = upstreams.map(identityOf)
  identities.forEach((identity, at) => {
    const first = identities.indexOf(identity)
    if (identity !== undefined && first !== at) {
      context.addIssue({
        code: 'custom',
        path: [at, 'url'],
        message: `expected another URL, or other headers, than those of upstreams.${first}: remove one of the two`
      })
    }
  })
}

/** Rejects clients with equal names, which a log could not distinguish, or with equal keys. */
export function rejectDuplicateClients (clients: readonly unknown[], context: z.RefinementCtx): void {
  for (const key of ['name', 'key']) {
    rejectDuplicates(
      'clients.keys',
      key,
      clients.map(client => textIn(client, key)),
      context
    )
  }
}

// The message quotes neither text, because either may be a secret.
function rejectDuplicates (
  list: string,
  key: string,
  texts: ReadonlyArray<string | undefined>,
  context: z.RefinementCtx
): void {
  texts.forEach((text, at) => {
    const first = texts.indexOf(text)
    if (text !== undefined && first !== at) {
      context.addIssue({
        code: 'custom',
        path: [at, key],
        message: `expected a unique ${key}, but ${list}.${first} has the same one`
      })
    }
  })
}

// Normalises the URL, and compares header names without case as HTTP does.
function identityOf (upstream: unknown): string | undefined {
  const url = textIn(upstream, 'url')
  if (url === undefined || !URL.canParse(url)) return undefined
  const { headers } = upstream as { headers?: unknown }
  const pairs = typeof headers === 'object' && headers !== null
    ? Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])
    : []
  return JSON.stringify([new URL(url).href.replace(/\/+$/, ''), pairs.map(pair => JSON.stringify(pair)).sort()])
}

function textIn (value: unknown, key: string): string | undefined {
  const text = typeof value === 'object' && value !== null && Object.hasOwn(value, key)
    ? (value as Record<string, unknown>)[key]
    : undefined
  return typeof text === 'string' ? text : undefined
}
