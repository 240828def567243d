import { randomInt } from 'node:crypto'
import { type Logger } from 'pino'
import { type LoadedConfig } from '../config/load.js'
import { type Config, type NamedUpstream, sandboxUpstream } from '../config/schema.js'
import { socketPathOf } from '../config/value-checks.js'
import { warningsOf } from '../config/start-checks.js'
import { Metrics } from '../metrics/metrics.js'
import { type Program } from '../peers/worker-pool.js'
import { webFrameworkError } from '../api/error-response.js'
import { type Reload } from './admin-listener.js'
import { removeStaleSocket } from './listen.js'
import { startDnsDiscovery, type DnsDiscoveryOptions } from './dns-discovery.js'
import { startSingleProcess, type Varve } from './single-process.js'

export { type Varve } from './single-process.js'

/** Answers POST /reload where no file was read. */
async function rejectReload (): Promise<never> {
  throw webFrameworkError(404, 'there is no file to read again: the program that started varve reloads it')
}

/**
 * Starts one process or several workers, in front of the sandbox only on request (law 14: made-up data is never served
 * by accident).
 */
export async function startServing (
  { config, isSandbox }: Pick<LoadedConfig, 'config' | 'isSandbox'>,
  log: Logger,
  program: Program,
  metrics: Metrics = new Metrics(),
  dnsDiscovery: Partial<DnsDiscoveryOptions> = {},
  reload: Reload = rejectReload
): Promise<Varve> {
  for (const { key, message } of warningsOf(config)) log.warn({ key }, message)
  // Once, before any worker listens: one worker could remove the socket of another.
  const socketPath = socketPathOf(config.listen)
  if (socketPath !== undefined) await removeStaleSocket(socketPath)
  const start = async (sandbox: NamedUpstream | undefined, started: Config = config): Promise<Varve> =>
    started.workers === 1
      ? await startSingleProcess(started, sandbox, log, metrics, reload)
      : await (await import('./multi-process.js')).startMultiProcess(
        started,
        sandbox,
        log,
        program,
        metrics,
        reload
      )
  if (!isSandbox) {
    return await startDnsDiscovery(
      config,
      async expanded => await start(undefined, expanded),
      { log, now: () => performance.now(), ...dnsDiscovery }
    )
  }
  // Seven hours of blocks: the README's examples keep working, and memory stays bounded.
  const { startSandbox } = await import('#sandbox')
  const sandbox = await startSandbox({
    windowBlocks: 100_000,
    // Its ledger begins again at each start, which on one chain would contradict the position that the disk remembers.
    ...(config.cache.disk.path !== null && { seed: randomInt(1, 1_000_000_000) })
  })
  log.warn(
    { url: sandbox.url },
    'sandbox: serving made-up data of the embedded node, requested by --sandbox or VARVE_SANDBOX'
  )
  try {
    const varve = await start(sandboxUpstream(sandbox.url))
    return {
      ...varve,
      stop: async deadlines => {
        await varve.stop(deadlines)
        await sandbox.close()
      }
    }
  } catch (error) {
    // An open listener would keep a failed process alive.
    await sandbox.close()
    throw error
  }
}
