import { type AccessField, accessFields } from '../config/access-fields.js'
import { type Config } from '../config/schema.js'

/** Values of an access line; an absent one has no field. */
export type AccessLine = Readonly<Record<AccessField, string | number | undefined>>

/**
 * Returns the fields to log; undefined if the response gets no line. Errors and slow responses always get one, others
 * by their share: numbers of requests are consecutive, so the share is exact and its lines are evenly spread.
 */
export function accessLineOf (
  { accessFields: chosen, accessSample, accessSlowMs }: Config['log'],
  line: AccessLine & { readonly status: number, readonly tookMs: number },
  requestNumber: number
): Partial<AccessLine> | undefined {
  const isAlwaysLogged = line.status >= 400 || line.tookMs >= accessSlowMs
  if (!isAlwaysLogged && !isSampled(accessSample, requestNumber)) return undefined
  return Object.fromEntries(
    accessFields.filter(field => chosen === null || chosen.includes(field)).map(field => [field, line[field]])
  )
}

function isSampled (share: number, requestNumber: number): boolean {
  return Math.floor(requestNumber * share) > Math.floor((requestNumber - 1) * share)
}
