import { inSpan, type Span } from '../tracing/span.js'

/** Facts about an attempt in its span. */
interface TracedAttempt {
  readonly response: { readonly status: number }
  readonly flaw: string | undefined
}

/** Runs an attempt within a span of a traced request; others cost nothing. */
export function traceAttempt<T extends TracedAttempt> (
  span: Span | undefined,
  upstream: string,
  isHedge: boolean,
  run: () => Promise<T>
): Promise<T> {
  if (span === undefined) return run()
  return inSpan(
    span.child(isHedge ? 'hedge' : 'attempt', { 'varve.upstream': upstream }, 'client'),
    run,
    ({ response, flaw }) => ({ 'http.response.status_code': response.status, 'varve.flaw': flaw })
  )
}
