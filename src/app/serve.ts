import { type Logger } from 'pino'
import { type Flags, type Loaded, loadConfig } from '../config/load.js'
import { warningsOf } from '../config/warnings.js'
import { type Program } from '../workers/crew.js'
import { bannerOf } from './banner.js'
import { takeCareOfFaults, toldToStop } from './faults.js'
import { watchDescriptors } from './descriptors.js'
import { type ExitCode, exitCodes, type Io } from './io.js'
import { logOf } from './log.js'
import { Reloading } from './reloading.js'
import { startAlone, type Varve } from './varve.js'

export { type Varve } from './varve.js'

/** Serves until it is told to stop. */
export async function serve (flags: Flags, io: Io): Promise<ExitCode> {
  const load = (): Loaded => loadConfig(io.environment, flags, { listens: true, fetches: true })
  const loaded = load()
  const { log, masking, lost } = logOf(io, loaded.config)
  const told = toldToStop(io, () => performance.now())
  let varve: Varve | undefined
  takeCareOfFaults(io, log, masking, {
    metrics: () => varve?.metrics,
    stop: async patience => {
      await varve?.stop(patience)
    }
  })
  const started = startVarve(loaded, log, io.program)
  const reloading = new Reloading(load, started, log, config => {
    masking.take(config)
  })
  io.onSignal('SIGHUP', () => {
    if (!io.hasLostTerminal()) reloading.reload()
  })
  try {
    varve = await started
  } catch (error) {
    throw new Error(masking.mask((error as Error).message), { cause: error })
  }
  const { metrics } = varve
  metrics.process.observeLog(lost)
  const unwatch = watchDescriptors(log, () => {
    metrics.process.exhausted()
  })
  if (io.isTerminal || loaded.isSandbox) io.out(bannerOf(varve, loaded))
  log.info({ signal: await told }, 'stopping')
  reloading.end()
  unwatch()
  await varve.stop()
  log.info('stopped')
  return exitCodes.ok
}

/**
 * Starts what serves, with the embedded node where that was asked for by name: in this process, or in as many as are
 * wanted.
 */
export async function startVarve (
  { config, isSandbox }: Pick<Loaded, 'config' | 'isSandbox'>,
  log: Logger,
  program: Program
): Promise<Varve> {
  for (const { key, message } of warningsOf(config)) log.warn({ key }, message)
  const start = async (sandboxUrl: string | undefined): Promise<Varve> =>
    config.workers === 1
      ? await startAlone(config, sandboxUrl, log)
      : await (await import('./workers.js')).startWorkers(config, sandboxUrl, log, program)
  if (!isSandbox) return await start(undefined)
  // The demonstration never forgets, so that what the README and the banner ask for is there however long it runs.
  // Read where it is used: a start in front of a real node need not wait for it.
  const { startSandbox } = await import('#sandbox')
  const sandbox = await startSandbox({ windowBlocks: 100_000_000 })
  log.warn(
    { url: sandbox.url },
    'sandbox: serving made-up data of the embedded node, as --sandbox or VARVE_SANDBOX asks'
  )
  try {
    const varve = await start(sandbox.url)
    return {
      ...varve,
      stop: async patience => {
        await varve.stop(patience)
        await sandbox.close()
      }
    }
  } catch (error) {
    // A listener left behind would keep a process alive that has failed to start.
    await sandbox.close()
    throw error
  }
}
