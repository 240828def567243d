/** Fields of an access line, in their order; docs/logs.md describes each. */
export const accessFields = [
  'id',
  'traceId',
  'method',
  'url',
  'client',
  'clientAddress',
  'userAgent',
  'endpoint',
  'outcome',
  'status',
  'cacheStatus',
  'upstream',
  'attempts',
  'bytes',
  'tookMs'
] as const

/** Field of an access line. */
export type AccessField = typeof accessFields[number]
