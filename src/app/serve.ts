import { randomInt } from 'node:crypto'
import { type Logger } from 'pino'
import { type Flags, type LoadedConfig, loadConfig } from '../config/load.js'
import { type Config, type NamedUpstream, sandboxUpstream } from '../config/schema.js'
import { socketPathOf } from '../config/value-checks.js'
import { warningsOf } from '../config/start-checks.js'
import { Metrics } from '../metrics/metrics.js'
import { withTimeout } from '../with-timeout.js'
import { type Program } from '../peers/worker-pool.js'
import { webFrameworkError } from '../api/error-response.js'
import { type Reload } from './admin-listener.js'
import { bannerOf } from './banner.js'
import { installFaultHandlers, waitForStopSignal } from './process-exit.js'
import { watchDescriptors } from './descriptors.js'
import { type ExitCode, exitCodes, type Io } from './io.js'
import { openLog } from './log.js'
import { removeStaleSocket } from './unix-socket.js'
import { startDnsDiscovery, type DnsDiscoveryOptions } from './dns-discovery.js'
import { ConfigReloader } from './config-reloader.js'
import { startSingleProcess, type Varve } from './single-process.js'

export { type Varve } from './single-process.js'

/** Serves until a stop signal. */
export async function serve (flags: Flags, io: Io): Promise<ExitCode> {
  const load = (): LoadedConfig => loadConfig(io.environment, flags, { isForServe: true })
  const loaded = load()
  const { log, masker, lostLines, useForm } = openLog(io, loaded.config)
  const stopSignal = waitForStopSignal(io, () => performance.now())
  const metrics = new Metrics()
  metrics.process.countLostLines(lostLines)
  const reloader = new ConfigReloader(load, metrics, log, config => {
    masker.addSecretsOf(config)
    useForm(config)
  })
  const started = startServing(loaded, log, io.program, metrics, {}, async () => {
    const result = await reloader.reload()
    return result.reloaded ? result : { ...result, mistakes: result.mistakes.map(text => masker.mask(text)) }
  })
  installFaultHandlers(io, log, masker, {
    metrics,
    // A start that hangs must not delay the exit.
    stop: async deadlines => {
      await (await withTimeout(0, started))?.stop(deadlines)
    }
  })
  io.onSignal('SIGHUP', () => {
    if (!io.hasLostTerminal()) reloader.reload().catch(() => {})
  })
  const varve = await started.catch((error: unknown) => {
    throw new Error(masker.mask((error as Error).message), { cause: error })
  })
  reloader.start(varve)
  const unwatch = watchDescriptors(log, () => {
    metrics.process.descriptorsExhausted()
  })
  if (io.isTerminal || loaded.isSandbox) io.out(bannerOf(varve, loaded))
  log.info({ signal: await stopSignal }, 'stopping')
  reloader.close()
  unwatch()
  await varve.stop()
  log.info('stopped')
  return exitCodes.ok
}

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
