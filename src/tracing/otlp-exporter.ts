import { type EndedSpan, type SpanAttributes, Tracer, type TracerOptions } from './tracer.js'

/** Results of spans, for metrics. */
export type SpanResult = 'sent' | 'failed' | 'dropped'

/** Destination of spans, and what it reports. */
export interface OtlpOptions {
  /** Base URL of a collector, or the whole URL of its traces. */
  readonly url: string
  /** Headers of each request to the collector. */
  readonly headers: Readonly<Record<string, string>>
  /** Attributes of the process. */
  readonly resource: SpanAttributes
  /** Unix time at which the clock of the spans began. */
  readonly timeOriginMs: number
  readonly count: (result: SpanResult, spans: number) => void
  readonly onFailed: (reason: string) => void
}

// Limits spans in memory: those beyond it are dropped (law 10: nothing grows without bound).
const maxQueued = 4096
const maxBatch = 512
const intervalMs = 1000
const timeoutMs = 5000
// Time for the last spans at the end of the process, which must not wait for a collector that hangs.
const closeMs = 1000

const tracesPath = '/v1/traces'
const kinds = { internal: 1, server: 2, client: 3 }

/** Sends spans to a collector in batches: OTLP over HTTP, as JSON. */
export class OtlpExporter {
  readonly #options: OtlpOptions
  readonly #url: URL
  readonly #queue: EndedSpan[] = []
  readonly #timer: NodeJS.Timeout
  readonly #closing = new AbortController()
  #sending: Promise<void> | undefined

  constructor (options: OtlpOptions) {
    this.#options = options
    this.#url = tracesUrlOf(options.url)
    this.#timer = setInterval(() => this.#sendMore(), intervalMs).unref()
  }

  /** Queues spans; those for which there is no room are dropped. */
  add (spans: readonly EndedSpan[]): void {
    const room = Math.max(0, maxQueued - this.#queue.length)
    this.#queue.push(...spans.slice(0, room))
    if (spans.length > room) this.#options.count('dropped', spans.length - room)
    if (this.#queue.length >= maxBatch) this.#sendMore()
  }

  /** Sends what is queued, once and within a second, and ends. */
  async close (): Promise<void> {
    clearInterval(this.#timer)
    const timer = setTimeout(() => {
      this.#closing.abort()
      this.#queue.length = 0
    }, closeMs)
    await this.#sending
    while (this.#queue.length > 0 && await this.#sendBatch()) { /* until all is sent, or one fails */ }
    clearTimeout(timer)
  }

  #sendMore (): void {
    if (this.#sending !== undefined || this.#queue.length === 0) return
    this.#sending = this.#sendBatch().then(() => {
      this.#sending = undefined
      if (this.#queue.length >= maxBatch) this.#sendMore()
    })
  }

  async #sendBatch (): Promise<boolean> {
    const batch = this.#queue.splice(0, maxBatch)
    const signal = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(timeoutMs)])
    const failure = await post(this.#url, this.#options.headers, JSON.stringify(this.#bodyOf(batch)), signal)
    this.#options.count(failure === undefined ? 'sent' : 'failed', batch.length)
    if (failure !== undefined) this.#options.onFailed(failure)
    return failure === undefined
  }

  #bodyOf (spans: readonly EndedSpan[]): object {
    return {
      resourceSpans: [{
        resource: { attributes: attributeList(this.#options.resource) },
        scopeSpans: [{ scope: { name: 'varve' }, spans: spans.map(span => this.#spanOf(span)) }]
      }]
    }
  }

  #spanOf ({ traceId, spanId, parentId, name, kind, startMs, endMs, attributes, failure }: EndedSpan): object {
    return {
      traceId,
      spanId,
      ...(parentId !== undefined && { parentSpanId: parentId }),
      name,
      kind: kinds[kind],
      startTimeUnixNano: this.#nanos(startMs),
      endTimeUnixNano: this.#nanos(endMs),
      attributes: attributeList(attributes),
      status: failure === undefined ? {} : { code: 2, message: failure }
    }
  }

  // Prints nanoseconds as text, as the JSON of OTLP does with 64-bit numbers.
  #nanos (ms: number): string {
    return String(BigInt(Math.round((this.#options.timeOriginMs + ms) * 1000)) * 1000n)
  }
}

/** Returns the URL at which a collector takes traces: below its base URL, or the given URL if that names traces. */
export function tracesUrlOf (text: string): URL {
  const url = new URL(text)
  if (!url.pathname.endsWith(tracesPath)) url.pathname = url.pathname.replace(/\/$/, '') + tracesPath
  return url
}

function attributeList (attributes: SpanAttributes): object[] {
  return Object.entries(attributes).flatMap(([key, value]) => value === undefined ? [] : [{ key, value: typed(value) }])
}

function typed (value: string | number | boolean): object {
  switch (typeof value) {
    case 'string':
      return { stringValue: value }
    case 'boolean':
      return { boolValue: value }
    default:
      return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value }
  }
}

/** Posts a body; returns the reason if it was not accepted. */
async function post (
  url: URL,
  headers: Readonly<Record<string, string>>,
  body: string,
  signal: AbortSignal
): Promise<string | undefined> {
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body,
      signal,
      // A redirect would carry the headers elsewhere (law 9: credentials stay).
      redirect: 'manual'
    })
    await response.body?.cancel()
    return response.ok ? undefined : `status ${response.status}`
  } catch (error) {
    const { message } = (error as Error).cause as Error | undefined ?? error as Error
    return signal.aborted ? 'timed out' : message
  }
}

/** Starts to trace requests for a collector, and reports the first failure of a row; `close` sends what is left. */
export function startTracing<Request extends object> (options: OtlpOptions & Pick<TracerOptions, 'sample' | 'now'>) {
  // Starts each count at 0, so that an alert sees the first increase.
  for (const result of ['sent', 'failed', 'dropped'] as const) options.count(result, 0)
  let isFailing = false
  const exporter = new OtlpExporter({
    ...options,
    count: (result, spans) => {
      options.count(result, spans)
      if (result === 'sent') isFailing = false
    },
    onFailed: reason => {
      if (!isFailing) options.onFailed(reason)
      isFailing = true
    }
  })
  return {
    tracer: new Tracer<Request>({ ...options, random: Math.random, exportSpans: spans => exporter.add(spans) }),
    close: async () => await exporter.close()
  }
}
