/** What came back. */
export interface Came {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: Buffer
}

// Of a page of somebody else's, as much as tells whose it is.
const shownBytes = 300

/** How a body begins, in one line that does nothing to a terminal. */
export function beginningOf ({ body }: Came): string {
  return body.toString('utf8', 0, shownBytes).replace(/\p{Cc}+/gu, ' ')
}

/** A header line of an answer. */
export function headerOf ({ headers }: Came, name: string): string | undefined {
  const value = headers[name]
  return typeof value === 'string' ? value : value?.[0]
}
