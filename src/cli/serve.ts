import { type FastifyInstance } from 'fastify'
import { pino, type Logger } from 'pino'
import { type Flags, type Loaded, loadConfig } from '../config/load.js'
import { withoutEffect } from '../config/not-yet.js'
import { type Config, hostAndPort, isShared } from '../config/schema.js'
import { Stamper } from '../proxy/stamp.js'
import { type Sandbox } from '../sandbox/sandbox.js'
import { adminApp } from '../server/admin-app.js'
import { Cors } from '../server/cors.js'
import { Drain } from '../server/drain.js'
import { publicApp } from '../server/public-app.js'
import { within } from '../within.js'
import { bannerOf } from './banner.js'
import { build } from './build.js'
import { purgerOf } from './purger.js'
import { type ExitCode, exitCodes, type Io } from './io.js'
import { type Patience, stopGracefully } from './stop.js'

/** A running varve. */
export interface Varve {
  readonly url: string
  readonly adminUrl: string
  stop (patience?: Patience): Promise<void>
}

// How long a start waits for the node's first word.
const startMs = 3000

/** Serves until it is told to stop. */
export async function serve (flags: Flags, io: Io): Promise<ExitCode> {
  const loaded = loadConfig(io.environment, flags)
  const log = pino({ level: loaded.config.log.level }, { write: io.out })
  const told = new Promise<string>(resolve => {
    io.onSignal('SIGINT', () => { resolve('SIGINT') })
    io.onSignal('SIGTERM', () => { resolve('SIGTERM') })
  })
  const varve = await startVarve(loaded, log)
  if (io.isTerminal || loaded.config.upstreams.length === 0) io.out(bannerOf(varve, loaded.config))
  log.info({ signal: await told }, 'stopping')
  await varve.stop()
  log.info('stopped')
  return exitCodes.ok
}

/** Builds every part and starts the two listeners: the only place where parts meet. */
export async function startVarve ({ config, given }: Loaded, log: Logger): Promise<Varve> {
  for (const path of withoutEffect(given)) log.warn({ key: path }, 'this key has no effect yet')
  if (config.upstreams.length > 0) return await startInFrontOf(undefined, config, log)
  // The demonstration never forgets, so that what the README and the banner ask for is there however long it runs.
  // Read where it is used: a start in front of a real node need not wait for it.
  const { startSandbox } = await import('../sandbox/sandbox.js')
  const sandbox = await startSandbox({ windowBlocks: 100_000_000 })
  log.warn({ url: sandbox.url }, 'no upstream is configured: serving the embedded sandbox node, whose chain is made up')
  try {
    return await startInFrontOf(sandbox, config, log)
  } catch (error) {
    // A listener left behind would keep a process alive that has failed to start.
    await sandbox.close()
    throw error
  }
}

async function startInFrontOf (sandbox: Sandbox | undefined, config: Config, log: Logger): Promise<Varve> {
  const { parts, known, metrics, nodes, generations, sharing } = build(config, sandbox?.url, log, isShared(config) ? (await import('./sharing.js')).sharingOf : undefined)
  const { tracker, forgetting } = parts
  const drain = new Drain()
  const stamper = new Stamper(parts, config.downstream.cacheControl)
  const app = publicApp({ config, parts, known, stamper, metrics, log, drain, cors: new Cors(config.cors.origins) })
  const purge = purgerOf({ tracker, generations, forgetting, sharing, eventsDefault: config.pages.eventsDefault })
  const admin = adminApp({ metrics, tracker, members: nodes.fleet.members, drain, purging: { token: config.admin.token, purge }, degradedShare: () => sharing?.degraded() ?? [] })
  const close = async (): Promise<void> => {
    nodes.stop()
    await Promise.all([admin.close(), nodes.close(), sandbox?.close(), sharing?.stop()])
  }
  try {
    const url = await listen(app, config.listen, 'listen')
    const adminUrl = await listen(admin, config.admin.listen, 'admin.listen')
    log.info({ url, adminUrl }, 'listening')
    await sharing?.start(generations)
    // A node that does not answer keeps no process from serving what others have kept, nor from being stopped.
    await within(startMs, nodes.start())
    if (tracker.chain === undefined) await sharing?.recall()
    sharing?.look().catch(() => {})
    return { url, adminUrl, stop: async patience => { await stopGracefully(app, drain, { abandon: async () => { await nodes.close() }, close }, patience) } }
  } catch (error) {
    await app.close()
    await close()
    throw error
  }
}

async function listen (app: FastifyInstance, address: string, key: string): Promise<string> {
  try {
    return await app.listen(hostAndPort(address))
  } catch (error) {
    throw new Error(`cannot listen on ${address} (${key}): ${(error as Error).message}`)
  }
}
