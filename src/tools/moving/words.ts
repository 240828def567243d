import { type Purge, type KnownGeneration } from '../../chain/words.js'

/**
 * What an export says of itself: the chain and generation that its keys are of, what that chain is known by, and when
 * it was begun by the wall clock.
 */
export interface ExportHead extends Pick<KnownGeneration, 'anchors' | 'head'> {
  readonly chainId: number
  readonly generation: number
  readonly begunAtMs: number
}

/** An entry as it lies in the file. */
export interface Moved {
  readonly key: string
  /** How long it was still to be kept; undefined: without an end. */
  readonly ttlMs: number | undefined
  readonly value: Buffer
}

/** What comes after the head, one after another. */
export type Part =
  | { readonly kind: 'entry', readonly entry: Moved }
  /** Longer than whoever reads has room for; passed over. */
  | { readonly kind: 'too long' }
  /** Purged while it was being exported: what came before it in the file may be what was meant. */
  | { readonly kind: 'purge', readonly purge: Purge }

/** The first bytes of a file. */
export const signature = Buffer.from('varve export\n')

/** The version of its form. */
export const fileFormat = 1

/** What stands before each part. */
export const partMarks = { end: 0, entry: 1, purge: 2 } as const

/** Longer than any head or purge that varve writes. */
export const longestText = 4 * 1024 * 1024

/** How the life of an entry without an end is written. */
export const endless = 2n ** 64n - 1n

/** Something cannot be brought in, and nothing was written. */
export class Refused extends Error {}
