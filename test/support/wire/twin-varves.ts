import { type Test } from 'tap'
import { respondOk, startStubUpstream } from '../stub-upstream.js'
import { type ConfigChange, type TestVarve, varveAt } from '../varve.js'
import { until } from '../until.js'
import { countParsedRequests } from './parsed-requests.js'
import { runWireSession, type WireStep } from './wire-session.js'

/** Sizes in bytes of the bodies that the upstream of the twins has, by the account in the target. */
export const bodySizes = [2, 600, 16_384, 16_385, 70_000, 140_000] as const

/** Returns the target of a body with that size. */
export function targetOfSize (bytes: number): string {
  return `/v1/accounts/0x${bytes.toString(16)}/modules?ledger_version=500`
}

/** Two varves with and without the fast path, in front of the same upstream. */
export interface Twins {
  readonly fast: TestVarve
  readonly plain: TestVarve
  /** Numbers of requests that Node has parsed for each. */
  parsed(): { readonly fast: number, readonly plain: number }
  /** Runs the same session at both; returns what each client received. */
  run(steps: readonly WireStep[]): Promise<{ readonly fast: string, readonly plain: string }>
  /** Returns the counters and the access log of each, without times. */
  records(): Promise<{ readonly fast: unknown, readonly plain: unknown }>
}

/** Starts twins and warms every form of every body. */
export async function startTwins (t: Test, change: ConfigChange = {}): Promise<Twins> {
  const upstream = await startStubUpstream(t, (request, response) => {
    request.resume()
    const bytes = Number.parseInt(/accounts\/0x([0-9a-f]+)/.exec(request.url ?? '')?.[1] ?? '2', 16)
    respondOk(response, JSON.stringify(`${'abcdefgh'.repeat(bytes / 8 + 1)}`.slice(0, bytes - 2)))
  })
  const start = async (fastPath: boolean): Promise<TestVarve> => {
    // Never expires what the micro-cache holds, so that both answer alike at any speed.
    return await varveAt(t, upstream.url, {
      log: { access: true },
      latest: { infoMs: 3_600_000, indexMs: 3_600_000, gasMs: 3_600_000 },
      ...change,
      http: { fastPath }
    })
  }
  const twins = { fast: await start(true), plain: await start(false) }
  const parsedBy = countParsedRequests(t)
  return {
    ...twins,
    parsed: () => ({ fast: parsedBy(twins.fast.url), plain: parsedBy(twins.plain.url) }),
    run: async steps => {
      const [fast, plain] = await Promise.all(
        [twins.fast, twins.plain].map(async ({ url }) => await runWireSession(url, steps))
      )
      return { fast: fast ?? '', plain: plain ?? '' }
    },
    records: async () => ({ fast: await recordsOf(twins.fast), plain: await recordsOf(twins.plain) })
  }
}

/** Requests a body in gzip at both until both have it: varve compresses in the background. */
export async function warmGzip (twins: Twins, target: string): Promise<void> {
  const send = `GET ${target} HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n`
  await until(async () => {
    const { fast, plain } = await twins.run([{ send }])
    return [fast, plain].every(text => text.includes('content-encoding: gzip'))
  }, `${target} in gzip`)
}

const comparedSeries =
  /^varve_(?:requests_total|request_duration_seconds_count|client_requests_total|limited_total|reads_saved_total|pruned_requests_total|upstream_requests_total|cache_entries|cache_bytes|cache_writes_total|not_stored_total|connections_cut_total|audit_total|unhandled_total)\b/

async function recordsOf ({ metrics, log }: TestVarve): Promise<unknown> {
  return {
    counters: (await metrics.registry.metrics()).split('\n').filter(line =>
      // Excludes reads of varve's own, which come at their own times.
      comparedSeries.test(line) && !line.startsWith('varve_upstream_requests_total{upstream="node",endpoint="other"')
    ),
    accessLog: log.filter(({ msg }) => msg === 'request completed').map(line => ({
      ...line,
      id: '',
      time: 0,
      tookMs: 0
    }))
  }
}
