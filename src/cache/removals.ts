/** Reasons for which a read was no hit; labels of `varve_misses_total`. */
export const missCauses = ['first', 'evicted', 'expired', 'purged', 'reset', 'moving', 'unknown'] as const

/** Reason for which a read was no hit. */
export type MissCause = typeof missCauses[number]

const removalCauses = ['evicted', 'expired', 'purged', 'reset', 'unknown'] as const

/** Reason for which an entry left the memory tier; `unknown` if nothing proves it any more. */
export type RemovalCause = typeof removalCauses[number]

// Size of a table for about as many removals as the default memory tier has entries, in 1 MB (law 10: nothing grows
// without bound).
const slotBits = 18
const causeBits = 3

/** Remembers why entries left the memory tier, by digests of keys; a later removal may take the slot of another. */
export class Removals {
  readonly #slots = new Uint32Array(1 << slotBits)

  record (key: string, cause: RemovalCause): void {
    const { slot, tag } = digestOf(key)
    this.#slots[slot] = tag | (removalCauses.indexOf(cause) + 1)
  }

  /**
   * Returns why a key is absent: `first` if it never left the tier, `unknown` if another key may have taken its slot.
   */
  causeOf (key: string): MissCause {
    const { slot, tag } = digestOf(key)
    const known = this.#slots[slot] as number
    if (known === 0) return 'first'
    return (known ^ tag) >>> causeBits === 0 ? removalCauses[(known & 0b111) - 1] as RemovalCause : 'unknown'
  }
}

/** Digests a key without its space, so that a read is recognised in the space that replaces its own. */
function digestOf (key: string): { readonly slot: number, readonly tag: number } {
  let one = 0x811c9dc5
  let two = 0x9e3779b9
  for (let at = Math.max(0, key.indexOf(' ')); at < key.length; at++) {
    const code = key.charCodeAt(at)
    one = Math.imul(one ^ code, 0x01000193)
    two = Math.imul(two ^ code, 0x85ebca6b)
  }
  return { slot: one >>> (32 - slotBits), tag: two >>> causeBits << causeBits }
}
