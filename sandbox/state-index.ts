import { type Address } from './address.js'
import { ownBytes } from './bcs.js'
import { type StateKey } from './state-key.js'

interface KeyHistory {
  readonly key: StateKey
  /** Places of the transactions that list the key, in order. */
  readonly places: number[]
}

/** Places of the chain at which each state key is listed; a place is a version counted from the start of the chain. */
export class StateIndex {
  /** The first place that is not indexed yet. */
  next = 0
  /** The first place that is not pruned. */
  oldest = 0
  readonly #histories = new Map<string, KeyHistory>()
  readonly #byAddress = new Map<Address, Map<string, KeyHistory>>()

  /** Number of keys that are known. */
  get size (): number {
    return this.#histories.size
  }

  /** Adds a place at which a key is listed, after all earlier places. */
  add (key: StateKey, place: number): void {
    const id = key.toString('latin1')
    const history = this.#histories.get(id) ?? this.#begin(id, key)
    history.places.push(place)
  }

  /** Returns the last place, not beyond a given one, at which a key is listed. */
  lastPlace (key: StateKey, place: number): number | undefined {
    const places = this.#histories.get(key.toString('latin1'))?.places ?? []
    return places[countUpTo(places, place) - 1]
  }

  /** Returns the keys of an account that are listed anywhere, in their order. */
  keysOf (address: Address): StateKey[] {
    return [...this.#byAddress.get(address)?.values() ?? []].map(({ key }) => key).sort((a, b) => a.compare(b))
  }

  /** Drops what precedes the last listing of a key at or before a place, and a key that is deleted by then. */
  prune (key: StateKey, place: number, isDeletedAt: (place: number) => boolean): void {
    const id = key.toString('latin1')
    const history = this.#histories.get(id)
    if (history === undefined) return
    history.places.splice(0, countUpTo(history.places, place) - 1)
    const [last] = history.places
    if (history.places.length > 1 || last === undefined || !isDeletedAt(last)) return
    this.#histories.delete(id)
    this.#byAddress.get(addressOfKey(key))?.delete(id)
  }

  #begin (id: string, key: StateKey): KeyHistory {
    const history = { key: ownBytes(key), places: [] }
    this.#histories.set(id, history)
    // Only modules and resources are listed by account.
    if (key[0] === 0) {
      const address = addressOfKey(key)
      const known = this.#byAddress.get(address) ?? new Map<string, KeyHistory>()
      this.#byAddress.set(address, known.set(id, history))
    }
    return history
  }
}

function addressOfKey (key: StateKey): Address {
  return key.toString('hex', 1, 33)
}

function countUpTo (places: readonly number[], place: number): number {
  let low = 0
  let high = places.length
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    if (Number(places[middle]) <= place) low = middle + 1
    else high = middle
  }
  return low
}
