/** Parts of a request that identify its parsed form; the body only if it was read. */
export interface VariantParts {
  readonly method: string
  readonly target: string
  readonly accept: string | undefined
  readonly contentType: string | undefined
  readonly body: Buffer | undefined
}

// Limits target, Accept and Content-Type in characters; longer requests are parsed each time.
const maxVariantLength = 1024

/** Largest body in bytes that a variant key contains. */
export const maxMemoisedBodyBytes = 2048

/**
 * Returns one text for all parts that decide the read; undefined if the request is too large to remember. Targets
 * contain no blanks and headers no line breaks, so different requests never share a text.
 */
export function variantKeyOf ({ method, target, accept, contentType, body }: VariantParts): string | undefined {
  const head = accept === undefined ? target : `${accept} ${target}`
  if (head.length > maxVariantLength) return undefined
  // Shares one text between GET and HEAD, whose responses differ only in the body.
  if (method === 'GET' || method === 'HEAD') return head
  if (
    method !== 'POST' || contentType === undefined || contentType.length > maxVariantLength || body === undefined ||
    body.length > maxMemoisedBodyBytes
  ) return undefined
  return `${contentType}\n${head}\n${body.toString('latin1')}`
}
