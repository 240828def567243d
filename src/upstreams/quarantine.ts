/** Message for operators: why an upstream cannot be on our chain (law 7: chains never mix). */
export type QuarantineReason = string

/** Error for a response of a quarantined upstream, which is never used. */
export class QuarantinedError extends Error {}
