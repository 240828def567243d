/** Facts about a span, by name. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean | undefined>>

/** A span that waits for another service is a client, others are internal. */
export type ChildKind = 'client' | 'internal'

/** Part of a traced request. A span that never ends is not exported. */
export interface Span {
  /** Starts a span within this one. */
  child(name: string, attributes?: SpanAttributes, kind?: ChildKind): Span
  /** Ends the span; a reason marks it as failed. */
  end(attributes?: SpanAttributes, failure?: string): void
}

/** Runs work within a span, which ends with what `describe` says of its result. */
export async function inSpan<T> (
  span: Span,
  run: () => Promise<T>,
  describe: (result: T) => SpanAttributes
): Promise<T> {
  try {
    const result = await run()
    span.end(describe(result))
    return result
  } catch (error) {
    span.end({}, error instanceof Error ? error.message : String(error))
    throw error
  }
}
