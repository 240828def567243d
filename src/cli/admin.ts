import { type ExitCode, exitCodes, type Io, UsageError } from '../app/io.js'

/** Flags of the commands that call the admin listener. */
export interface AdminFlags {
  readonly admin?: string
  readonly json?: boolean
  readonly watch?: boolean
  readonly data?: string
  readonly all?: boolean
  readonly account?: string
}

/** Error for an admin listener that cannot be reached. */
export class AdminUnreachableError extends Error {}

const callTimeoutMs = 10_000
// Gives a reload time, because workers are replaced one after the other.
const reloadTimeoutMs = 600_000

/** Calls the admin listener that a flag or the environment names; sends the body, if any, as JSON with the token. */
export async function callAdmin (
  { admin }: AdminFlags,
  { environment }: Io,
  path: string,
  body?: object,
  timeoutMs = callTimeoutMs
): Promise<{ readonly status: number, readonly text: string }> {
  const listener = adminUrlOf(admin ?? (environment['VARVE_ADMIN'] || 'http://127.0.0.1:9464'))
  const token = environment['VARVE_ADMIN_TOKEN'] || undefined
  try {
    const response = await fetch(new URL(path, listener), {
      ...(body !== undefined && {
        method: 'POST',
        body: JSON.stringify(body),
        headers: {
          'content-type': 'application/json',
          ...(token !== undefined && { authorization: `Bearer ${token}` })
        }
      }),
      // A redirect would carry the token elsewhere (law 9: credentials stay).
      redirect: 'error',
      signal: AbortSignal.timeout(timeoutMs)
    })
    return { status: response.status, text: await response.text() }
  } catch (error) {
    throw new AdminUnreachableError(`no admin listener on ${listener.origin}: ${reasonOf(error as Error, timeoutMs)}`)
  }
}

/** Parses the address of an admin listener: a URL, or HOST:PORT as --admin of serve takes it. */
export function adminUrlOf (text: string): URL {
  const full = /^https?:/.test(text) ? text : `http://${text}`
  const url = URL.canParse(full) ? new URL(full) : undefined
  if (url !== undefined && url.username === '' && url.pathname === '/' && url.search === '') return url
  throw new UsageError('--admin expects the address of an admin listener, such as http://127.0.0.1:9464')
}

/** Parses a JSON object; undefined for any other text. */
export function parseObject (text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? { ...value } : undefined
  } catch {
    return undefined
  }
}

function reasonOf (error: Error, timeoutMs: number): string {
  if (error.name === 'TimeoutError') return `no response in ${timeoutMs / 1000} s`
  const { code, message = error.message } = (error.cause ?? {}) as { code?: string, message?: string }
  return code === 'ECONNREFUSED' ? 'connection refused; is varve running, and is this its admin listener?' : message
}

/** Purges one read, an account, or everything, through the admin listener of a running varve. */
export async function purge (flags: AdminFlags, words: readonly string[], io: Io): Promise<ExitCode> {
  const { status, text } = await callAdmin(flags, io, '/purge', scopeOf(flags, words))
  const body = parseObject(text)
  if (status === 200) {
    io.out(body?.['stored'] === false ? 'purged: nothing of it was stored\n' : 'purged\n')
    return exitCodes.ok
  }
  if (status === 202) {
    io.err('varve: purged here; Redis, the disk or a worker has not confirmed yet, and gets it later\n')
    return exitCodes.failed
  }
  return printRejected('purged', status, body, io)
}

/** Reloads the configuration of a running varve; prints the keys that changed, or every mistake. */
export async function reload (flags: AdminFlags, io: Io): Promise<ExitCode> {
  const { status, text } = await callAdmin(flags, io, '/reload', {}, reloadTimeoutMs)
  const body = parseObject(text)
  const [changed, needsRestart, mistakes] = ['changed', 'needsRestart', 'mistakes'].map(member => body?.[member])
  if (Array.isArray(changed) && Array.isArray(needsRestart)) {
    io.out(changed.length === 0 ? 'reloaded: nothing has changed\n' : `reloaded: ${changed.join(', ')}\n`)
    for (const key of needsRestart) io.out(`  ${key} takes effect after a restart\n`)
    return exitCodes.ok
  }
  if (!Array.isArray(mistakes)) return printRejected('reloaded', status, body, io)
  io.err(
    `varve: not reloaded, the previous configuration stays in use:\n${mistakes.map(each => `  ${each}\n`).join('')}`
  )
  return exitCodes.misused
}

function printRejected (
  what: string,
  status: number,
  body: Readonly<Record<string, unknown>> | undefined,
  io: Io
): ExitCode {
  const message = body === undefined ? 'the response is none of varve' : String(body['message'])
  const hint = status === 401 ? '; set VARVE_ADMIN_TOKEN to admin.token of that varve' : ''
  io.err(`varve: not ${what}: ${message} (HTTP ${status})${hint}\n`)
  return exitCodes.failed
}

function scopeOf ({ all, account, data }: AdminFlags, [method, url, ...others]: readonly string[]): object {
  if (all === true || account !== undefined) {
    if (method !== undefined || data !== undefined || (all === true && account !== undefined)) {
      throw new UsageError('purge takes --all or --account ADDRESS, or a METHOD and a URL')
    }
    return account === undefined ? { all: true } : { account }
  }
  if (method === undefined || url === undefined || others.length > 0) {
    throw new UsageError('purge takes a METHOD and a URL, or --all, or --account ADDRESS')
  }
  // A whole URL, copied from a log or a browser, names the same read as its path.
  const target = /^https?:\/\/[^/]+(\/.*)$/.exec(url)?.[1] ?? url
  return { method: method.toUpperCase(), url: target, ...(data !== undefined && { body: data }) }
}
