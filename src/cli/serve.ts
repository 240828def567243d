import { headerSuffix, ownHeaderFamily } from '../api/position.js'
import { exampleTargetAt, indexTarget, infoTarget, otherExampleTargetAt } from '../api/request-targets.js'
import { watchDescriptors } from '../app/listen.js'
import { type ExitCode, exitCodes, installFaultHandlers, type Io, waitForStopSignal } from '../app/io.js'
import { openLog } from '../app/log.js'
import { ConfigReloader, KeysFileWatch, startServing } from '../app/start-serving.js'
import { type Flags, type LoadedConfig, loadConfig } from '../config/load.js'
import { type Config } from '../config/schema.js'
import { maskUrl } from '../config/secrets.js'
import { socketPathOf } from '../config/value-checks.js'
import { Metrics } from '../metrics/metrics.js'
import { withTimeout } from '../with-timeout.js'

/** Serves until a stop signal. */
export async function serve (flags: Flags, io: Io): Promise<ExitCode> {
  const load = (): LoadedConfig => loadConfig(io.environment, flags, { isForServe: true })
  const loaded = load()
  const { log, masker, lostLines, useForm } = openLog(io, loaded.config)
  const stopSignal = waitForStopSignal(io, () => performance.now())
  const metrics = new Metrics()
  metrics.process.countLostLines(lostLines)
  const reloader = new ConfigReloader(load, metrics, log)
  const started = startServing(loaded, log, io.program, metrics, {}, async () => {
    const result = await reloader.reload()
    return result.reloaded ? result : { ...result, mistakes: result.mistakes.map(text => masker.mask(text)) }
  })
  installFaultHandlers(io, log, masker, {
    metrics,
    // Stops only a varve that has started, because a start that hangs must not delay the exit.
    stop: async deadlines => await (await withTimeout(0, started))?.stop(deadlines)
  })
  io.onSignal('SIGHUP', () => {
    if (!io.hasLostTerminal()) reloader.reload().catch(() => {})
  })
  const varve = await started.catch((error: unknown) => {
    throw new Error(masker.mask((error as Error).message), { cause: error })
  })
  const keysFile = new KeysFileWatch()
  const watchKeys = ({ clients }: Config): void => keysFile.use(clients.keysFile, async () => await reloader.reload())
  watchKeys(loaded.config)
  reloader.start(async config => {
    masker.addSecretsOf(config)
    const keys = await varve.reload(config)
    useForm(config)
    watchKeys(config)
    return keys
  })
  const unwatch = watchDescriptors(log, () => metrics.process.descriptorsExhausted())
  if (io.isTerminal || loaded.isSandbox) io.out(bannerOf(varve, loaded))
  log.info({ signal: await stopSignal }, 'stopping')
  keysFile.close()
  reloader.close()
  unwatch()
  await varve.stop()
  log.info('stopped')
  return exitCodes.ok
}

/** Formats the start message for a terminal: listen addresses, upstreams, and three commands to try. */
export function bannerOf (
  varve: { readonly url: string, readonly adminUrl: string },
  { config, isSandbox }: Pick<LoadedConfig, 'config' | 'isSandbox'>
): string {
  const redis = redisTextOf(config.cache.redis)
  return `
  varve   history is immutable, so read it once

  reads   ${socketPathOf(varve.url) === undefined ? `${varve.url}${indexTarget}` : varve.url}
  admin   ${varve.adminUrl}/metrics, /healthz, /readyz, /status.json
  page    ${varve.adminUrl}/status
  ${config.upstreams.length > 1 ? 'nodes' : 'node '}   ${
    isSandbox
      ? 'sandbox, the embedded node: made-up data (--upstream URL for a real one)'
      : upstreamLinesOf(config)
  }
  memory  ${config.cache.memory.maxMb} MB
  disk    ${config.cache.disk.path ?? 'none: cached responses do not outlive a restart'}
  redis   ${redis}

  a miss, a hit, and a hit by another request variant at a newer position:
${exampleCommands(varve.url, isSandbox).map(line => `    ${line}\n`).join('')}
`
}

/** Picks a version to try: the sandbox never prunes version 2000; an upstream certainly has only its newest version. */
function exampleCommands (address: string, isSandbox: boolean): string[] {
  const path = socketPathOf(address)
  const [curl, url] = path === undefined ? ['curl', address] : [`curl --unix-socket ${path}`, 'http://varve']
  const curls = (version: string, padded: string): string[] => [
    ...[1, 2].map(() => `${curl} -si "${url}${exampleTargetAt(version)}" | head -n 20`),
    `${curl} -si "${url}${otherExampleTargetAt(padded)}" | head -n 20`
  ]
  if (isSandbox) return curls('2000', '%2B2000')
  const header = ownHeaderFamily + headerSuffix.version
  return [`V=$(${curl} -sI ${url}${infoTarget} | grep -i ^${header} | tr -dc 0-9)`, ...curls('$V', '%2B$V')]
}

function upstreamLinesOf ({ upstreams }: Config): string {
  return upstreams.map(({ url }) => maskUrl(url)).join('\n          ')
}

function redisTextOf ({ url, cluster, sentinel }: Config['cache']['redis']): string {
  if (url !== null) return maskUrl(url)
  if (cluster.length > 0) return `a cluster (${cluster.join(', ')})`
  return sentinel.name === null ? 'none: cached responses are not shared' : `${sentinel.name} (through its sentinels)`
}
