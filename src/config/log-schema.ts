import { z } from 'zod'

/** Fields of an access line, in their order; docs/logs.md describes each. */
export const accessFields = [
  'id',
  'traceId',
  'method',
  'url',
  'client',
  'endpoint',
  'outcome',
  'status',
  'cacheStatus',
  'upstream',
  'attempts',
  'bytes',
  'tookMs'
] as const

/** One field of the closed list. */
export type AccessField = typeof accessFields[number]

/** Schema of the key `log`. */
export const logSchema = z.strictObject({
  level: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).default('info'),
  levelNames: z.boolean().default(false),
  isoTimes: z.boolean().default(false),
  access: z.boolean().default(false),
  accessFields: z.array(z.enum(accessFields)).nullable().default(null),
  accessSample: z.number().min(0).max(1).default(1),
  accessErrorStatus: z.int().min(400).max(600).default(400),
  accessSlowMs: z.int().min(0).max(3_600_000).default(1000)
})
