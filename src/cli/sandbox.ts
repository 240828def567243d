import { indexTarget } from '../api/request-targets.js'
import { hostAndPort, isAddress } from '../config/value-checks.js'
import { startSandbox } from '#sandbox'
import { type ExitCode, exitCodes, type Io, UsageError } from '../app/io.js'
import { listenError } from '../app/listen.js'
import { wholeNumberFlag } from './format.js'

/** Runs the sandbox until a stop signal. */
export async function runSandbox (flags: Readonly<Record<string, string | undefined>>, io: Io): Promise<ExitCode> {
  const listen = flags['listen'] ?? '127.0.0.1:8081'
  if (!isAddress(listen)) throw new UsageError(`--listen expects HOST:PORT, got ${listen}`)
  const sandbox = await startSandbox({
    ...hostAndPort(listen),
    ...numberFlag('seed', 'seed'),
    ...numberFlag('blocks', 'blocks', 1_000_000),
    ...numberFlag('block-ms', 'blockMs'),
    ...numberFlag('chain-id', 'chainId', 255),
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

  function numberFlag (flag: string, option: string, max = 999_999_999): Record<string, number> {
    const value = wholeNumberFlag(flag, flags[flag], 0, max)
    return value === undefined ? {} : { [option]: value }
  }
}

function familyFlag (text: string | undefined): { family?: string } {
  if (text === undefined) return {}
  if (!/^[a-z0-9-]+$/i.test(text)) throw new UsageError(`--family expects letters, digits and -, got ${text}`)
  return { family: text.toLowerCase() }
}
