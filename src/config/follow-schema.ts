import { z } from 'zod'

/** Keys of following the ledger. */
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
