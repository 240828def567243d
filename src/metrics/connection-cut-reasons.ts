/** Reasons to close a client connection; labels of `varve_connections_cut_total`. */
export const connectionCutReasons = [
  // Timed out in the TLS handshake, the request head or the request body.
  'handshake',
  'head',
  'body',
  // Read nothing of its response for 120 s.
  'stalled',
  // Was the slowest reader while responses in flight exceeded `limits.inFlightMb`.
  'memory',
  // Pipelined too many requests.
  'pipelining',
  // Was idle, and replaced by a new connection at the limit.
  'idle',
  // Was new, with the limit reached and no idle connection to replace.
  'connection_limit'
] as const

/** Reason to close a client connection. */
export type ConnectionCutReason = typeof connectionCutReasons[number]
