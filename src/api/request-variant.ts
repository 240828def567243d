/** What a known read is told by on the wire; a body only where one is read. */
export interface VariantParts {
  readonly method: string
  readonly target: string
  readonly accept: string | undefined
  readonly contentType: string | undefined
  readonly body: Buffer | undefined
}

// What is longer is not worth remembering.
const maxVariantLength = 1024

/** How many bytes a body may have that is spelled. */
export const maxVariantBodyBytes = 2048

/**
 * One text for everything that a request is read by, so that equal texts are the same read; undefined where it is not
 * worth remembering. No target holds a blank, and neither it nor a header value a line break, so that no two requests
 * have one text.
 */
export function variantKeyOf ({ method, target, accept, contentType, body }: VariantParts): string | undefined {
  const asked = accept === undefined ? target : `${accept} ${target}`
  if (asked.length > maxVariantLength) return undefined
  // Whatever answers GET answers HEAD, without the body.
  if (method === 'GET' || method === 'HEAD') return asked
  if (
    method !== 'POST' || contentType === undefined || contentType.length > maxVariantLength || body === undefined ||
    body.length > maxVariantBodyBytes
  ) return undefined
  return `${contentType}\n${asked}\n${body.toString('latin1')}`
}
