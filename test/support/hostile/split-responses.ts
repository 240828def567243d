/** One response as it came over the wire. */
export interface HostileResponse {
  readonly status: number
  /** First line and header fields, as received. */
  readonly head: string
  readonly headers: ReadonlyMap<string, string>
  readonly body: string
}

/** Bytes so far: complete responses and the rest. */
export interface SplitResponses {
  readonly responses: HostileResponse[]
  readonly rest: string
}

/**
 * Splits a connection's bytes strictly by framing; a body without length is complete only when the connection closes.
 */
export function splitResponses (text: string, methods: readonly string[], isClosed: boolean): SplitResponses {
  const responses: HostileResponse[] = []
  let rest = text
  let final = 0
  for (;;) {
    const headEnd = rest.indexOf('\r\n\r\n')
    if (headEnd === -1) return { responses, rest }
    const head = rest.slice(0, headEnd)
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(head)?.[1])
    if (Number.isNaN(status)) return { responses, rest }
    const headers = headersIn(head)
    const body = bodyIn(rest.slice(headEnd + 4), status, headers, methods[final] ?? 'GET', isClosed)
    if (body === undefined) return { responses, rest }
    rest = rest.slice(headEnd + 4 + body.length)
    if (status < 200) continue
    final++
    responses.push({ status, head: `${head}\r\n`, headers, body: body.text })
  }
}

function headersIn (head: string): Map<string, string> {
  const headers = new Map<string, string>()
  for (const line of head.split('\r\n').slice(1)) {
    const at = line.indexOf(':')
    const name = line.slice(0, at).toLowerCase()
    const value = line.slice(at + 1).trim()
    headers.set(name, headers.has(name) ? `${headers.get(name)}, ${value}` : value)
  }
  return headers
}

function bodyIn (
  rest: string,
  status: number,
  headers: ReadonlyMap<string, string>,
  method: string,
  isClosed: boolean
): { text: string, length: number } | undefined {
  if (method === 'HEAD' || status < 200 || status === 204 || status === 304) return { text: '', length: 0 }
  if (headers.get('transfer-encoding') === 'chunked') return chunksIn(rest)
  const length = Number(headers.get('content-length') ?? NaN)
  if (Number.isNaN(length)) return isClosed ? { text: rest, length: rest.length } : undefined
  return rest.length < length ? undefined : { text: rest.slice(0, length), length }
}

function chunksIn (rest: string): { text: string, length: number } | undefined {
  let text = ''
  let at = 0
  for (;;) {
    const [line = '', digits] = /^([0-9a-f]+)\r\n/i.exec(rest.slice(at)) ?? []
    if (digits === undefined) return undefined
    const size = Number.parseInt(digits, 16)
    const end = at + line.length + size + 2
    if (rest.length < end) return undefined
    text += rest.slice(at + line.length, end - 2)
    at = end
    if (size === 0) return { text, length: at }
  }
}
