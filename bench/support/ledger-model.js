// Models a ledger whose transactions write keys by Zipf's law; equal seeds give equal ledgers in every process.
import { drawsOf, zipf } from './random.js'

/** First version of the model; everything before it is unknown. */
export const firstVersion = 1_000_000
const writesPerTransaction = 4
const exponent = 1.1

/** Ledger of numbered keys: which versions write which key. */
export class LedgerModel {
  #touches = new Map()
  #draw
  #keyOf
  #written = []

  constructor ({ keys, seed }) {
    const draw = drawsOf(seed)
    this.#draw = zipf(draw, keys, exponent)
    // Spreads hot and cold ranks over all keys.
    this.#keyOf = Array.from({ length: keys }, (_, key) => key)
    for (let at = keys - 1; at > 0; at--) {
      const other = Math.floor(draw() * (at + 1))
      ;[this.#keyOf[at], this.#keyOf[other]] = [this.#keyOf[other], this.#keyOf[at]]
    }
  }

  get head () {
    return firstVersion + this.#written.length - 1
  }

  growTo (version) {
    while (this.head < version) {
      const keys = new Set()
      while (keys.size < writesPerTransaction) keys.add(this.#keyOf[this.#draw()])
      this.#written.push([...keys])
      for (const key of keys) {
        const touches = this.#touches.get(key)
        if (touches === undefined) this.#touches.set(key, [this.head])
        else touches.push(this.head)
      }
    }
  }

  /** Returns the keys that a version writes. */
  writtenAt (version) {
    return this.#written[version - firstVersion]
  }

  /** Returns the last version up to one that wrote a key; 0 if none has. */
  lastTouch (key, version) {
    return this.#touches.get(key)?.findLast(touched => touched <= version) ?? 0
  }
}

/** Returns the read of a key: a balance, a resource or a table item. */
export function readOfKey (key) {
  const address = addressOf(key)
  switch (key % 3) {
    case 0:
      return { path: `/v1/accounts/${address}/balance/0xa` }
    case 1:
      return { path: `/v1/accounts/${address}/resource/0x42::game::Score` }
    default:
      return {
        method: 'POST',
        path: `/v1/tables/${tableHandle}/item`,
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ key_type: 'u64', value_type: 'u64', key: String(key) })
      }
  }
}

/** Handle of the table of all items. */
export const tableHandle = `0x${'7'.repeat(64)}`

/** Returns the account of a key. */
export const addressOf = key => `0x${(0x1000000 + key).toString(16)}`
