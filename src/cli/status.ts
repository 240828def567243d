import { setTimeout } from 'node:timers/promises'
import { type ExitCode, exitCodes, type Io } from '../app/io.js'
import { AdminUnreachableError, type AdminClient, type AdminFlags } from '../tools/admin/admin-client.js'
import { statusScreenOf } from '../tools/admin/status-screen.js'
import { adminClientOf } from './admin-connection.js'

const watchMs = 2000
const clearScreen = '\u001b[2J\u001b[H'

/** Prints the state of a running varve, once or until a stop signal. */
export async function status (flags: AdminFlags, io: Io): Promise<ExitCode> {
  const client = adminClientOf(flags, io)
  if (flags.watch !== true) {
    const { text, code } = await readStatus(client, flags)
    io.out(text)
    return code
  }
  const stopping = new Promise<'stop'>(resolve => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      io.onSignal(signal, () => resolve('stop'))
    }
  })
  for (;;) {
    const { text } = await readStatus(client, flags).catch((error: unknown) => {
      // A restart of varve must not end the watch.
      if (error instanceof AdminUnreachableError) return { text: `varve: ${error.message}\n` }
      throw error
    })
    io.out((io.isTerminal ? clearScreen : '') + text)
    if (await Promise.race([stopping, setTimeout(watchMs, 'again')]) === 'stop') return exitCodes.ok
  }
}

async function readStatus (client: AdminClient, { json }: AdminFlags): Promise<{ text: string, code: ExitCode }> {
  const { status, text } = await client.get('/status.json')
  const state = status === 200 ? parseObject(text) : undefined
  if (state === undefined) throw new AdminUnreachableError(`/status.json is no status of varve (HTTP ${status})`)
  return {
    text: json === true ? `${JSON.stringify(state)}\n` : statusScreenOf(state),
    code: state['ready'] === true ? exitCodes.ok : exitCodes.failed
  }
}

function parseObject (text: string): Record<string, unknown> | undefined {
  try {
    const value = JSON.parse(text) as unknown
    return typeof value === 'object' && value !== null ? value as Record<string, unknown> : undefined
  } catch {
    return undefined
  }
}
