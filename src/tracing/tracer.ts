import { randomBytes } from 'node:crypto'
import { type SpanKind, type Span, type SpanAttributes } from './span.js'

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
  readonly ended: EndedSpan[] = []

  constructor (startMs: number, parent: ParentContext | undefined, now: () => number) {
    const traceId = parent?.traceId ?? randomBytes(16).toString('hex')
    this.root = new RecordedSpan(this, traceId, parent?.spanId, 'request', 'server', startMs, {}, now)
  }

  /** Value of a `traceparent` header for a request sent within this trace. */
  get traceparent (): string {
    return `00-${this.root.traceId}-${this.root.spanId}-01`
  }

  add (span: EndedSpan): void {
    if (this.ended.length < maxSpans) this.ended.push(span)
  }
}

class RecordedSpan implements Span {
  readonly traceId: string
  readonly spanId = randomBytes(8).toString('hex')
  readonly #trace: RequestTrace
  readonly #parentId: string | undefined
  name: string
  readonly #kind: EndedSpan['kind']
  readonly #startMs: number
  readonly #attributes: SpanAttributes
  readonly #now: () => number

  constructor (
    trace: RequestTrace,
    traceId: string,
    parentId: string | undefined,
    name: string,
    kind: EndedSpan['kind'],
    startMs: number,
    attributes: SpanAttributes,
    now: () => number
  ) {
    this.#trace = trace
    this.traceId = traceId
    this.#parentId = parentId
    this.name = name
    this.#kind = kind
    this.#startMs = startMs
    this.#attributes = attributes
    this.#now = now
  }

  child (name: string, attributes: SpanAttributes = {}, kind: SpanKind = 'internal'): Span {
    return new RecordedSpan(this.#trace, this.traceId, this.spanId, name, kind, this.#now(), attributes, this.#now)
  }

  end (attributes: SpanAttributes = {}, failure?: string): void {
    this.#trace.add({
      traceId: this.traceId,
      spanId: this.spanId,
      parentId: this.#parentId,
      name: this.name,
      kind: this.#kind,
      startMs: this.#startMs,
      endMs: this.#now(),
      attributes: { ...this.#attributes, ...attributes },
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
    trace.root.name = outcome.name
    trace.root.end(outcome.attributes, outcome.failure)
    this.#options.exportSpans(trace.ended)
  }
}
