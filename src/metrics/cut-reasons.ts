/**
 * Why a client's connection was ended before the client would have: it took its time over the TLS handshake, its head
 * or its body; it read nothing of its response (`reading`), or was the slowest to read while memory in flight was short
 * (`memory`); it sent too many requests ahead; it was idle and made room for another; or there was no room for it.
 * Closed, as the metric's label.
 */
export const cutReasons = ['handshake', 'head', 'body', 'reading', 'memory', 'ahead', 'room', 'full'] as const

/** One of the closed list. */
export type CutReason = typeof cutReasons[number]
