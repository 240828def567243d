import { randomBytes } from 'node:crypto'

/** Facts about a span, by name. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean | undefined>>

/** Kind of a span: `client` waits for another service, all others are internal. */
export type SpanKind = 'client' | 'internal'

/** Part of a traced request. A span that never ends is not exported. */
export interface Span {
  /** Starts a span within this one. */
  child(name: string, attributes?: SpanAttributes, kind?: SpanKind): Span
  /** Ends the span; a reason marks it as failed. */
  end(attributes?: SpanAttributes, failure?: string): void
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

// Spans per trace (law 10: nothing grows without bound).
const maxSpans = 64

/** Trace of one request: its spans are gathered, and exported together. */
interface Trace {
  readonly traceId: string
  readonly now: () => number
  readonly ended: EndedSpan[]
}

/** Span within the trace of a request, or the request itself. */
export class RecordedSpan implements Span {
  readonly trace: Trace
  readonly #spanId = randomBytes(8).toString('hex')
  readonly #begun: BegunSpan

  constructor (trace: Trace, begun: BegunSpan) {
    this.trace = trace
    this.#begun = begun
  }

  /** Value of a `traceparent` header for a request sent within this span. */
  get traceparent (): string {
    return `00-${this.trace.traceId}-${this.#spanId}-01`
  }

  child (name: string, attributes: SpanAttributes = {}, kind: SpanKind = 'internal'): Span {
    return new RecordedSpan(this.trace, { parentId: this.#spanId, name, kind, startMs: this.trace.now(), attributes })
  }

  end (attributes: SpanAttributes = {}, failure?: string, name = this.#begun.name): void {
    const { traceId, now, ended } = this.trace
    if (ended.length >= maxSpans) return
    ended.push({
      ...this.#begun,
      name,
      traceId,
      spanId: this.#spanId,
      endMs: now(),
      attributes: { ...this.#begun.attributes, ...attributes },
      failure
    })
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

/** Traces requests: begins a trace with each request, and decides at the request's end if the trace is exported. */
export class Tracer<Request extends object> {
  readonly #options: TracerOptions
  readonly #roots = new WeakMap<Request, RecordedSpan>()

  constructor (options: TracerOptions) {
    this.#options = options
  }

  /** Begins the trace of a request with its root span, or returns the root span that has begun. */
  begin (request: Request, startMs: number, parent: ParentContext | undefined): RecordedSpan {
    const known = this.#roots.get(request)
    if (known !== undefined) return known
    const traceId = parent?.traceId ?? randomBytes(16).toString('hex')
    const root = new RecordedSpan({ traceId, now: this.#options.now, ended: [] }, {
      parentId: parent?.spanId,
      name: 'request',
      kind: 'server',
      startMs,
      attributes: {}
    })
    this.#roots.set(request, root)
    return root
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
    const root = this.begin(request, startMs, parent())
    root.end(outcome.attributes, outcome.failure, outcome.name)
    this.#options.exportSpans(root.trace.ended)
  }
}
