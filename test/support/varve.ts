import { join } from 'node:path'
import { pino } from 'pino'
import { type Test } from 'tap'
import { startServing, type Varve } from '../../src/app/start-serving.js'
import { type z } from 'zod'
import { configSchema, type Config } from '../../src/config/schema.js'
import { Metrics } from '../../src/metrics/metrics.js'
import { startSandbox, type Sandbox, type SandboxOptions } from '#sandbox'
import { type TestRequest, type TestResponse, sendRequest } from './client.js'
import { until } from './until.js'

// Program for processes; `npm test` compiles it before.
const program = { file: join(import.meta.dirname, '../../dist/cli.js'), flags: [] }

/** A running varve with helpers for tests. */
export interface TestVarve extends Varve {
  readonly config: Config
  readonly metrics: Metrics
  readonly log: Array<Record<string, unknown>>
  get(target: string, request?: TestRequest): Promise<TestResponse>
  /** Value of a series; undefined if it does not exist. */
  metric(series: string): Promise<number | undefined>
}

type DeepPartial<T> = T extends readonly unknown[] ? T : T extends object ? { [K in keyof T]?: DeepPartial<T[K]> } : T

/** Changes of the configuration; `upstream` changes the only upstream, `isSandbox` has none. */
export type ConfigChange =
  & DeepPartial<Omit<Config, 'clients'>>
  & { upstream?: object, isSandbox?: boolean, clients?: z.input<typeof configSchema>['clients'] }

/** Starts varve in this process on free ports in front of an upstream; a listener may get what workers log. */
export async function varveAt (
  t: Test,
  upstreamUrl: string,
  change: ConfigChange = {},
  ofWorkers: { readonly onLogLine?: (line: string) => unknown } = {}
): Promise<TestVarve> {
  const { upstream, isSandbox = false, ...rest } = change
  // Disables audits, which have tests of their own: stubs may never repeat a response. Raises the Redis timeout and
  // disables load shedding: test files run in parallel, and a test shares its event loop with upstream and varve.
  const limits = { loopLagMs: null, ...rest.limits }
  const cache = { ...rest.cache, redis: { timeoutMs: 2000, ...rest.cache?.redis } }
  const config = configSchema.parse({
    listen: '127.0.0.1:0',
    upstreams: [{ name: 'node', url: upstreamUrl, ...upstream }],
    head: { pollMs: 600_000 },
    audit: { share: 0 },
    ...rest,
    admin: { listen: '127.0.0.1:0', ...rest.admin },
    limits,
    cache
  })
  const log: Array<Record<string, unknown>> = []
  const metrics = new Metrics()
  const varve = await startServing(
    { config, isSandbox },
    pino({ level: config.log.level }, { write: line => log.push(JSON.parse(line)) }),
    { ...program, ...ofWorkers },
    metrics
  )
  t.teardown(async () => {
    await varve.stop({ drainMs: 0 })
  })
  return {
    ...varve,
    config,
    metrics,
    log,
    get: async (target, request) => await sendRequest(varve.url, target, request),
    metric: async series => {
      const text = config.workers === 1
        ? await metricText(metrics, varve.adminUrl, series)
        : (await sendRequest(varve.adminUrl, '/metrics')).body
      const line = text.split('\n').find(text => text.startsWith(`${series} `))
      return line === undefined ? undefined : Number(line.slice(series.length + 1))
    }
  }
}

// Prints a single metric: the whole of /metrics costs 20 ms, and tests poll.
async function metricText (metrics: Metrics, adminUrl: string, series: string): Promise<string> {
  const name = series.replace(/(?:_bucket|_sum|_count)?(?:\{.*)?$/, '')
  return metrics.registry.getSingleMetric(name) !== undefined
    ? await metrics.registry.getSingleMetricAsString(name)
    : (await sendRequest(adminUrl, '/metrics')).body
}

/** Starts the embedded node without growth of its own, and varve in front of it. */
export async function varveAtSandbox (
  t: Test,
  options: SandboxOptions = {},
  change: Parameters<typeof varveAt>[2] = {}
): Promise<{ sandbox: Sandbox, varve: TestVarve }> {
  const sandbox = await startSandbox({ blockMs: 0, ...options })
  t.teardown(async () => {
    await sandbox.close()
  })
  const varve = await varveAt(t, sandbox.url, change)
  sandbox.requests.reset()
  return { sandbox, varve }
}

/** Token of the workers' admin listener. */
export const token = 's3cret'

/** Silences the log, because processes write to the test's output. */
export const quietConfig = { log: { level: 'silent' as const }, admin: { listen: '127.0.0.1:0', token } }

/** Sends reads on new connections until every worker has had some; returns their responses. */
export async function requestEachWorker (varve: TestVarve, target: string, workers = 2): Promise<string[]> {
  const seen = []
  for (let nth = 0; nth < workers * 2; nth++) seen.push(String((await varve.get(target)).headers['cache-status']))
  return seen
}

/**
 * Returns the pids of all workers; waits for a missing one, since a signal to an undefined pid would hit the test's own
 * processes.
 */
export async function allPidsOf (varve: TestVarve, workers: number): Promise<number[]> {
  let pids: number[] = []
  await until(async () => (pids = await pidsOf(varve)).length === workers, `all ${workers} workers respond`)
  return pids
}

/** Returns the pids of ready workers, as far as they responded. */
export async function pidsOf (varve: TestVarve): Promise<number[]> {
  const { workers } = JSON.parse((await sendRequest(varve.adminUrl, '/status.json')).body) as {
    workers: Array<{ pid: number, ready: boolean }>
  }
  return workers.filter(({ ready }) => ready).map(({ pid }) => pid)
}
