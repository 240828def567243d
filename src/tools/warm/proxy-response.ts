/** Response of varve to a warm request. */
export interface ProxyResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: Buffer
}

// Enough of a foreign error page to recognise its server.
const excerptBytes = 300

/** Returns the beginning of a body in one line without control characters. */
export function bodyExcerptOf ({ body }: ProxyResponse): string {
  return body.toString('utf8', 0, excerptBytes).replace(/\p{Cc}+/gu, ' ')
}

/** Returns the first value of a response header. */
export function headerValueIn ({ headers }: ProxyResponse, name: string): string | undefined {
  const found = headers[name]
  return typeof found === 'string' ? found : found?.[0]
}
