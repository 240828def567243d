import { hostAndPort } from '../config/schema.js'
import { startSandbox } from '../sandbox/sandbox.js'
import { type ExitCode, exitCodes, type Io, UsageError } from './io.js'

/** Runs the embedded node until it is told to stop. */
export async function runSandbox (flags: Readonly<Record<string, string | undefined>>, io: Io): Promise<ExitCode> {
  const listen = flags['listen'] ?? '127.0.0.1:8081'
  if (!/^.+:[0-9]{1,5}$/.test(listen)) throw new UsageError(`--listen expects HOST:PORT, got ${listen}`)
  const sandbox = await startSandbox({
    ...hostAndPort(listen),
    ...numberFlag(flags, 'seed', 'seed'),
    ...numberFlag(flags, 'blocks', 'blocks'),
    ...numberFlag(flags, 'block-ms', 'blockMs'),
    ...numberFlag(flags, 'chain-id', 'chainId'),
    ...(flags['family'] === undefined ? {} : { family: flags['family'].toLowerCase() })
  })
  io.out(`varve sandbox: a made-up node on ${sandbox.url}\n  curl -i ${sandbox.url}/v1\n  curl -s ${sandbox.url}/sandbox\n`)
  await new Promise<void>(resolve => {
    io.onSignal('SIGINT', resolve)
    io.onSignal('SIGTERM', resolve)
  })
  await sandbox.close()
  return exitCodes.ok
}

function numberFlag (flags: Readonly<Record<string, string | undefined>>, flag: string, option: string): Record<string, number> {
  const text = flags[flag]
  if (text === undefined) return {}
  if (!/^[0-9]{1,9}$/.test(text)) throw new UsageError(`--${flag} expects a whole number, got ${text}`)
  return { [option]: Number(text) }
}
