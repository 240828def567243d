/** What a known read is told by on the wire; a body only where one is read. */
export interface Spelled {
  readonly method: string
  readonly target: string
  readonly accept: string | undefined
  readonly contentType: string | undefined
  readonly body: Buffer | undefined
}

// What is longer is not worth remembering.
const maxLength = 1024

/** How many bytes a body may have that is spelled. */
export const longestBody = 2048

/**
 * One text for everything that a request is read by, so that equal texts are the same read; undefined where it is not
 * worth remembering. No target holds a blank, and neither it nor a header value a line break, so that no two requests
 * have one text.
 */
export function spellingOf ({ method, target, accept, contentType, body }: Spelled): string | undefined {
  const asked = accept === undefined ? target : `${accept} ${target}`
  if (asked.length > maxLength) return undefined
  // Whatever answers GET answers HEAD, without the body.
  if (method === 'GET' || method === 'HEAD') return asked
  if (
    method !== 'POST' || contentType === undefined || contentType.length > maxLength || body === undefined ||
    body.length > longestBody
  ) return undefined
  return `${contentType}\n${asked}\n${body.toString('latin1')}`
}
