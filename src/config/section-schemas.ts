import { z } from 'zod'
import { accessFields } from './access-fields.js'
import { isFolderOrNew, isReadable, tildeMistake } from './value-checks.js'

/** Schema of the path of a folder. */
export const optionalFolder = pathOf(isFolderOrNew, 'expected a folder').min(1).describe('the path of a folder')
  .nullable()
  .default(null)

/** Schema of the path of a file. */
export const optionalFile = pathOf(isReadable, 'expected a file that can be read').describe('the path of a file')
  .nullable()
  .default(null)

/** Schema of the key `log`. */
export const logSchema = z.strictObject({
  level: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).default('info'),
  levelNames: z.boolean().default(false),
  isoTimes: z.boolean().default(false),
  access: z.boolean().default(false),
  accessFields: z.array(z.enum(accessFields)).nullable().default(null),
  accessSample: z.number().min(0).max(1).default(1),
  accessSlowMs: z.int().min(0).max(3_600_000).default(1000)
})

/** Schema of the key `follow`. */
export const followSchema = z.strictObject({
  mode: z.enum(['off', 'observe', 'on']).default('off'),
  maxAgeMs: z.int().min(0).max(60_000).default(250),
  verify: z.number().min(0).max(1).default(0.02)
})

/** Returns what is wrong with following together with the micro-cache of state; undefined if nothing is. */
export function mistakeInFollow (
  { mode }: z.output<typeof followSchema>,
  { stateMs }: { readonly stateMs: number }
): string | undefined {
  return mode === 'on' && stateMs > 0
    ? 'expected off or observe together with latest.stateMs: a read cannot have two ages'
    : undefined
}

const collectorUrl = z.string().refine(
  text => /^https?:\/\/[^@?#]*$/.test(text) && URL.canParse(text),
  'expected the http or https URL of a collector without credentials and query, such as http://127.0.0.1:4318'
).describe('an http or https URL')

/** Schema of the key `tracing`. */
export const tracingSchema = z.strictObject({
  otlpUrl: collectorUrl.nullable().default(null),
  sample: z.number().min(0).max(1).default(0.01)
})

/** Returns the type of a path; `message` is the mistake of one that fails the check. */
function pathOf (isValid: (path: string) => boolean, message: string): z.ZodString {
  return z.string().refine(path => tildeMistake(path) === undefined && isValid(path), {
    error: ({ input }) => tildeMistake(String(input)) ?? message
  })
}
