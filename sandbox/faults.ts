import { type Fault } from './fault.js'
import { digest } from './digest.js'
import { type Ledger } from './ledger.js'
import { type EndpointName } from './routes.js'
import { Hold } from './hold.js'
import { vantageOf, type Vantage } from './vantage.js'

/** A fault that is in force, with where it makes the node stand. */
export interface ActiveFault {
  readonly fault: Fault
  readonly vantage: Vantage | undefined
}

/** What strikes one request. */
export interface Strike {
  readonly faults: readonly ActiveFault[]
  readonly holds: readonly Hold[]
}

interface Entry extends ActiveFault {
  left: number
}

/** The faults that the node is told to have. */
export class Faults {
  readonly #ledger: Ledger
  readonly #entries = new Set<Entry>()
  readonly #holds = new Set<Hold>()
  #draws = 0

  constructor (ledger: Ledger) {
    this.#ledger = ledger
  }

  /** The faults in force. */
  get list (): Fault[] {
    return [...this.#entries].map(({ fault }) => fault)
  }

  /** Begins a fault, from the next matching request on. */
  add (fault: Fault): { remove: () => void } {
    const entry = { fault, vantage: vantageOf(fault, this.#ledger), left: fault.times ?? Infinity }
    this.#entries.add(entry)
    return {
      remove: () => {
        this.#entries.delete(entry)
      }
    }
  }

  /** Ends every fault, and lets go of everything held. */
  clear (): void {
    this.#entries.clear()
    for (const hold of this.#holds) hold.release()
  }

  /** Holds matching requests until it is released; with `late` the state is read on arrival and answered on release. */
  hold (match?: EndpointName, { late = false }: { late?: boolean } = {}): Hold {
    const hold = new Hold(match, late, () => {
      this.#holds.delete(hold)
    })
    this.#holds.add(hold)
    return hold
  }

  /** Says what strikes a request, and counts it. */
  strike (endpoint: EndpointName): Strike {
    const holds = [...this.#holds].filter(hold => hold.match === undefined || hold.match === endpoint)
    const faults = [...this.#entries].filter(entry => this.#strikes(entry, endpoint))
    for (const hold of holds) hold.arrive()
    return { faults, holds }
  }

  #strikes (entry: Entry, endpoint: EndpointName): boolean {
    const { match, share } = entry.fault
    if (match !== undefined && match !== endpoint) return false
    if (share !== undefined && this.#draw() >= share) return false
    if (--entry.left <= 0) this.#entries.delete(entry)
    return true
  }

  #draw (): number {
    return digest(this.#ledger.seed, 'share', this.#draws++).readUInt32LE() / 2 ** 32
  }
}
