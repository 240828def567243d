/** Flags of the commands that call the admin listener. */
export interface AdminFlags {
  readonly admin?: string
  readonly json?: boolean
  readonly watch?: boolean
  readonly data?: string
  readonly all?: boolean
}

/** Response of the admin listener. */
export interface AdminResponse {
  readonly status: number
  readonly text: string
}

/** Error for an admin listener that cannot be reached. */
export class AdminUnreachableError extends Error {}

const timeoutMs = 10_000

/** Calls the admin listener of a running varve. */
export class AdminClient {
  readonly #url: URL
  readonly #token: string | undefined

  constructor (url: URL, token: string | undefined) {
    this.#url = url
    this.#token = token
  }

  async get (path: string): Promise<AdminResponse> {
    return await this.#request(path, { method: 'GET' })
  }

  async post (path: string, body: object): Promise<AdminResponse> {
    return await this.#request(path, {
      method: 'POST',
      body: JSON.stringify(body),
      headers: {
        'content-type': 'application/json',
        ...(this.#token !== undefined && { authorization: `Bearer ${this.#token}` })
      }
    })
  }

  async #request (path: string, init: RequestInit): Promise<AdminResponse> {
    try {
      const response = await fetch(new URL(path, this.#url), {
        ...init,
        // A redirect would carry the token elsewhere (law 9: credentials stay).
        redirect: 'error',
        signal: AbortSignal.timeout(timeoutMs)
      })
      return { status: response.status, text: await response.text() }
    } catch (error) {
      throw new AdminUnreachableError(`no admin listener on ${this.#url.origin}: ${reasonOf(error as Error)}`)
    }
  }
}

/** Parses the address of an admin listener: a URL, or HOST:PORT as --admin of serve takes it. */
export function adminUrlOf (text: string): URL | undefined {
  const full = /^https?:/.test(text) ? text : `http://${text}`
  const url = URL.canParse(full) ? new URL(full) : undefined
  return url !== undefined && url.username === '' && url.pathname === '/' && url.search === '' ? url : undefined
}

function reasonOf (error: Error): string {
  if (error.name === 'TimeoutError') return `no response in ${timeoutMs / 1000} s`
  const { code, message = error.message } = (error.cause ?? {}) as { code?: string, message?: string }
  return code === 'ECONNREFUSED' ? 'connection refused; is varve running, and is this its admin listener?' : message
}
