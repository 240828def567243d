import { z } from 'zod'

const collectorUrl = z.string().refine(
  text => /^https?:\/\/[^@?#]*$/.test(text) && URL.canParse(text),
  'expected the http or https URL of a collector without credentials and query, such as http://127.0.0.1:4318'
).describe('an http or https URL')

/** Schema of the key `tracing`. */
export const tracingSchema = z.strictObject({
  otlpUrl: collectorUrl.nullable().default(null),
  sample: z.number().min(0).max(1).default(0.01)
})
