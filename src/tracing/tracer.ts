import { randomBytes } from 'node:crypto'

/** Facts about a span, by name. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean | undefined>>

/** A span that waits for another service is a client, others are internal. */
export type SpanKind = 'client' | 'internal'

/** Part of a traced request. A span that never ends is not exported. */
export interface Span {
  /** Starts a span within this one. */
  child(name: string, attributes?: SpanAttributes, kind?: SpanKind): Span
  /** Ends the span; a reason marks it as failed. */
  end(attributes?: SpanAttributes, failure?: string): void
  /** Runs work, and ends the span with what `describe` says of its result. */
  run<T>(work: () => Promise<T>, describe: (result: T) => SpanAttributes): Promise<T>
}

/** A span that has ended, as the exporter sends it. */
export interface EndedSpan {
  readonly traceId: string
  readonly spanId: string
  readonly parentId: string | undefined
  readonly name: string
  readonly kind: 'server' | SpanKind
  readonly startMs: number
  readonly endMs: number
  readonly attributes: SpanAttributes
  readonly failure: string | undefined
}

type BegunSpan = Omit<EndedSpan, 'traceId' | 'spanId' | 'endMs' | 'failure'>

/** Trace and span of a client, from its `traceparent`. */
export interface ParentContext {
  readonly traceId: string
  readonly spanId: string
}

/** Spans per trace (law 10: nothing grows without bound). */
const maxSpans = 64

/** Trace of one request: its spans are gathered, and exported together. */
export class RequestTrace {
  readonly root: RecordedSpan
  readonly traceId: string
  readonly now: () => number
  readonly ended: EndedSpan[] = []

  constructor (startMs: number, parent: ParentContext | undefined, now: () => number) {
    this.traceId = parent?.traceId ?? randomBytes(16).toString('hex')
    this.now = now
    this.root = new RecordedSpan(this, {
      parentId: parent?.spanId,
      name: 'request',
      kind: 'server',
      startMs,
      attributes: {}
    })
  }

  /** Value of a `traceparent` header for a request sent within this trace. */
  get traceparent (): string {
    return `00-${this.traceId}-${this.root.spanId}-01`
  }

  add (span: EndedSpan): void {
    if (this.ended.length < maxSpans) this.ended.push(span)
  }
}

class RecordedSpan implements Span {
  readonly spanId = randomBytes(8).toString('hex')
  readonly #trace: RequestTrace
  readonly #begun: BegunSpan

  constructor (trace: RequestTrace, begun: BegunSpan) {
    this.#trace = trace
    this.#begun = begun
  }

  child (name: string, attributes: SpanAttributes = {}, kind: SpanKind = 'internal'): Span {
    return new RecordedSpan(this.#trace, { parentId: this.spanId, name, kind, startMs: this.#trace.now(), attributes })
  }

  end (attributes: SpanAttributes = {}, failure?: string, name = this.#begun.name): void {
    this.#trace.add({
      ...this.#begun,
      name,
      traceId: this.#trace.traceId,
      spanId: this.spanId,
      endMs: this.#trace.now(),
      attributes: { ...this.#begun.attributes, ...attributes },
      failure
    })
  }

  async run<T> (work: () => Promise<T>, describe: (result: T) => SpanAttributes): Promise<T> {
    try {
      const result = await work()
      this.end(describe(result))
      return result
    } catch (error) {
      this.end({}, error instanceof Error ? error.message : String(error))
      throw error
    }
  }
}

/** Settings and output of a tracer. */
export interface TracerOptions {
  /** Share of traced requests among those that needed no upstream. */
  readonly sample: number
  readonly now: () => number
  readonly random: () => number
  readonly exportSpans: (spans: readonly EndedSpan[]) => void
}

/** End of a traced request. */
export interface TracedOutcome {
  readonly name: string
  readonly attributes: SpanAttributes
  /** True if an upstream was asked: such a request is always exported. */
  readonly usedUpstream: boolean
  readonly failure: string | undefined
}

/** Traces requests: begins with each, and decides at its end if it is exported. */
export class Tracer<Request extends object> {
  readonly #options: TracerOptions
  readonly #traces = new WeakMap<Request, RequestTrace>()

  constructor (options: TracerOptions) {
    this.#options = options
  }

  /** Begins the trace of a request, or returns the one that has begun. */
  begin (request: Request, startMs: number, parent: ParentContext | undefined): RequestTrace {
    const known = this.#traces.get(request)
    if (known !== undefined) return known
    const trace = new RequestTrace(startMs, parent, this.#options.now)
    this.#traces.set(request, trace)
    return trace
  }

  /** Ends the trace of a request, begun or not. */
  finish (
    request: Request,
    startMs: number,
    parent: () => ParentContext | undefined,
    outcome: TracedOutcome
  ): void {
    const isTraced = outcome.usedUpstream || this.#options.random() < this.#options.sample
    if (!isTraced) return
    const trace = this.begin(request, startMs, parent())
    trace.root.end(outcome.attributes, outcome.failure, outcome.name)
    this.#options.exportSpans(trace.ended)
  }
}
