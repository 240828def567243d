import { type ExitCode, exitCodes, type Io, UsageError } from '../app/io.js'
import { type AdminFlags } from '../tools/admin/admin-client.js'
import { adminClientOf } from './admin-connection.js'

/** Purges one read, or everything, through the admin listener of a running varve. */
export async function purge (flags: AdminFlags, words: readonly string[], io: Io): Promise<ExitCode> {
  const { status, text } = await adminClientOf(flags, io).post('/purge', scopeOf(flags, words))
  if (status === 200) {
    io.out(isStored(text) ? 'purged\n' : 'purged: nothing of it was stored\n')
    return exitCodes.ok
  }
  if (status === 202) {
    io.err('varve: purged here; Redis, the disk or a worker has not confirmed yet, and gets it later\n')
    return exitCodes.failed
  }
  const hint = status === 401 ? '; set VARVE_ADMIN_TOKEN to admin.token of that varve' : ''
  io.err(`varve: not purged: ${messageIn(text)} (HTTP ${status})${hint}\n`)
  return exitCodes.failed
}

function scopeOf ({ all, data }: AdminFlags, [method, url, ...others]: readonly string[]): object {
  if (all === true) {
    if (method !== undefined || data !== undefined) throw new UsageError('purge takes --all or a METHOD and a URL')
    return { all: true }
  }
  if (method === undefined || url === undefined || others.length > 0) {
    throw new UsageError('purge takes a METHOD and a URL, or --all')
  }
  // A whole URL, copied from a log or a browser, names the same read as its path.
  const target = /^https?:\/\/[^/]+(\/.*)$/.exec(url)?.[1] ?? url
  return { method: method.toUpperCase(), url: target, ...(data !== undefined && { body: data }) }
}

function isStored (text: string): boolean {
  try {
    return (JSON.parse(text) as { stored?: unknown }).stored !== false
  } catch {
    return true
  }
}

function messageIn (text: string): string {
  try {
    return String((JSON.parse(text) as { message?: unknown }).message)
  } catch {
    return 'the response is none of varve'
  }
}
