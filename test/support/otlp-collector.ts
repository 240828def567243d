import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'
import { type Test } from 'tap'
import { listening } from './stub-upstream.js'

/** A span as a collector gets it, with its attributes by name. */
export interface CollectedSpan {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly kind: number
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly status: { readonly code?: number, readonly message?: string }
  readonly attributes: Readonly<Record<string, unknown>>
}

/** Collector of OpenTelemetry for tests: OTLP over HTTP in JSON. */
export interface Collector {
  readonly url: string
  readonly spans: readonly CollectedSpan[]
  readonly requests: ReadonlyArray<{ readonly url: string, readonly type: string, readonly resource: object }>
  /** Number of requests received whole. */
  readonly received: number
  /** Status of later responses; 0: never responds. */
  status: number
}

interface OtlpBody {
  readonly resourceSpans: ReadonlyArray<{
    readonly resource: { readonly attributes: Attributes },
    readonly scopeSpans: ReadonlyArray<{
      readonly spans: ReadonlyArray<Omit<CollectedSpan, 'attributes'> & { readonly attributes: Attributes }>
    }>
  }>
}

type Attributes = ReadonlyArray<{ readonly key: string, readonly value: Readonly<Record<string, unknown>> }>

/** Starts a collector on a free port. */
export async function startCollector (t: Test): Promise<Collector> {
  const spans: CollectedSpan[] = []
  const requests: Array<Collector['requests'][number]> = []
  const collector = { url: '', spans, requests, received: 0, status: 200 }
  const server = createServer((request, response) => {
    text(request).then(body => {
      collector.received++
      if (collector.status === 0) return
      response.writeHead(collector.status).end('{}')
      if (collector.status !== 200) return
      for (const { resource, scopeSpans } of (JSON.parse(body) as OtlpBody).resourceSpans) {
        requests.push({
          url: request.url ?? '',
          type: request.headers['content-type'] ?? '',
          resource: byName(resource.attributes)
        })
        for (const span of scopeSpans.flatMap(scope => scope.spans)) {
          spans.push({ ...span, attributes: byName(span.attributes) })
        }
      }
    }, () => {})
  })
  collector.url = await listening(t, server)
  return collector
}

function byName (attributes: Attributes): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]))
}
