import { type z } from 'zod'

/** Reports a mistake that concerns several values. */
export function reject (context: z.RefinementCtx, path: Array<string | number>, message: string): void {
  context.addIssue({ code: 'custom', path, message })
}

/**
 * Rejects two upstreams with one name, including default names by position and names of addresses. Runs beside the
 * other checks, so the list may still be invalid.
 */
export function rejectDuplicateUpstreamNames (upstreams: readonly unknown[], context: z.RefinementCtx): void {
  const names = upstreams.map((upstream, at) => textIn(upstream, 'name') ?? `node-${at + 1}`)
  rejectDuplicates('upstreams', 'name', names, context)
  upstreams.forEach((upstream, at) => {
    if (textIn(upstream, 'resolve') !== 'all') return
    const prefix = `${names[at]}-`
    const taken = names.findIndex(name => name.startsWith(prefix) && /^[0-9]+$/.test(name.slice(prefix.length)))
    if (taken === -1) return
    const message =
      `expected another name: its addresses are NAME-1, NAME-2, ..., and upstreams.${taken} has such a name`
    reject(context, [at, 'name'], message)
  })
}

/** Rejects an upstream that is listed twice, because the second adds no redundancy but gets a share of the reads. */
export function rejectDuplicateUpstreams (upstreams: readonly unknown[], context: z.RefinementCtx): void {
  const identities = upstreams.map(identityOf)
  identities.forEach((identity, at) => {
    const first = identities.indexOf(identity)
    if (identity === undefined || first === at) return
    const message = `expected another URL, or other headers, than those of upstreams.${first}: remove one of the two`
    reject(context, [at, 'url'], message)
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
    if (text === undefined || first === at) return
    const message = `expected a unique ${key}, but ${list}.${first} has the same one`
    reject(context, [at, key], message)
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
  // One name may be listed once for each of its addresses.
  const address = textIn(upstream, 'resolve') ?? 'any'
  return JSON.stringify([
    new URL(url).href.replace(/\/+$/, ''),
    address === 'all' ? 'any' : address,
    pairs.map(pair => JSON.stringify(pair)).sort()
  ])
}

function textIn (value: unknown, key: string): string | undefined {
  const text = typeof value === 'object' && value !== null && Object.hasOwn(value, key)
    ? (value as Record<string, unknown>)[key]
    : undefined
  return typeof text === 'string' ? text : undefined
}
