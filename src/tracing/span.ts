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
