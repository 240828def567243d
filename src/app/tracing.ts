import { hostname } from 'node:os'
import { type Logger } from 'pino'
import { type Config } from '../config/schema.js'
import { type RequestTracer } from '../http/request-tracing.js'
import { type Metrics } from '../metrics/metrics.js'
import { OtlpExporter } from '../tracing/otlp-exporter.js'
import { Tracer } from '../tracing/tracer.js'
import { versionOfProgram } from './io.js'

/** Tracing of a process. */
export interface Tracing {
  readonly tracer: RequestTracer
  /** Sends the spans that are left. */
  close(): Promise<void>
}

/** Starts to trace requests; this file is loaded only if `tracing.otlpUrl` is set. */
export function startTracing (
  { sample, headers, serviceName }: Config['tracing'],
  otlpUrl: string,
  { log, metrics, now }: { readonly log: Logger, readonly metrics: Metrics, readonly now: () => number }
): Tracing {
  // Start at 0, so that an alert sees the first increase.
  for (const result of ['sent', 'failed', 'dropped'] as const) metrics.traced(result, 0)
  let isFailing = false
  const exporter = new OtlpExporter({
    url: otlpUrl,
    headers,
    resource: { 'service.name': serviceName, 'service.version': versionOfProgram(), 'host.name': hostname() },
    timeOriginMs: performance.timeOrigin,
    count: (result, spans) => {
      metrics.traced(result, spans)
      if (result === 'sent') isFailing = false
    },
    onFailed: reason => {
      // Logs the first failure of a row only.
      if (!isFailing) log.warn({ reason }, 'traces could not be sent: check tracing.otlpUrl and the collector')
      isFailing = true
    }
  })
  return {
    tracer: new Tracer({
      sample,
      now,
      random: Math.random,
      exportSpans: spans => {
        exporter.add(spans)
      }
    }),
    close: async () => {
      await exporter.close()
    }
  }
}
