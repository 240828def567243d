/**
 * Why a client's connection was ended before the client would have: it took its time over the TLS handshake, its head or its body, or over reading its
 * answer; it sent too many requests ahead; it was idle and made room for another; or there was no room for it. Closed, as the metric's label.
 */
export const cutReasons = ['handshake', 'head', 'body', 'reading', 'ahead', 'room', 'full'] as const

/** One of the closed list. */
export type CutReason = typeof cutReasons[number]
