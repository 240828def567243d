import { indexTarget } from '../api/request-targets.js'
import { hostAndPort, isAddress } from '../config/value-checks.js'
import { startSandbox } from '#sandbox'
import { type ExitCode, exitCodes, type Io, UsageError } from '../app/io.js'
import { listenError } from '../app/listen-error.js'

/** Runs the sandbox until a stop signal. */
export async function runSandbox (flags: Readonly<Record<string, string | undefined>>, io: Io): Promise<ExitCode> {
  const listen = flags['listen'] ?? '127.0.0.1:8081'
  if (!isAddress(listen)) throw new UsageError(`--listen expects HOST:PORT, got ${listen}`)
  const sandbox = await startSandbox({
    ...hostAndPort(listen),
    ...numberFlag(flags, 'seed', 'seed'),
    ...numberFlag(flags, 'blocks', 'blocks', 1_000_000),
    ...numberFlag(flags, 'block-ms', 'blockMs'),
    ...numberFlag(flags, 'chain-id', 'chainId', 255),
    ...familyFlag(flags['family'])
  }).catch((error: unknown) => {
    throw listenError(listen, { key: '--listen', flag: '--listen' }, error as Error)
  })
  // Installs signal listeners before printing the address, because a reader may send a signal at once.
  const stopped = new Promise<void>(resolve => {
    io.onSignal('SIGINT', resolve)
    io.onSignal('SIGTERM', resolve)
  })
  io.out(
    `varve sandbox: a made-up node on ${sandbox.url}\n  curl -i ${sandbox.url}${indexTarget}\n` +
      `  curl -s ${sandbox.url}/sandbox\n`
  )
  await stopped
  await sandbox.close()
  return exitCodes.ok
}

function familyFlag (text: string | undefined): { family?: string } {
  if (text === undefined) return {}
  if (!/^[a-z0-9-]+$/i.test(text)) throw new UsageError(`--family expects letters, digits and -, got ${text}`)
  return { family: text.toLowerCase() }
}

function numberFlag (
  flags: Readonly<Record<string, string | undefined>>,
  flag: string,
  option: string,
  max = 999_999_999
): Record<string, number> {
  const text = flags[flag]
  if (text === undefined) return {}
  if (!/^[0-9]{1,9}$/.test(text) || Number(text) > max) {
    throw new UsageError(`--${flag} expects a whole number of at most ${max}, got ${text}`)
  }
  return { [option]: Number(text) }
}
