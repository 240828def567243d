import { type Fault } from './fault.js'
import { digestBytes } from './seeded-digest.js'
import { type Ledger } from './ledger.js'
import { type EndpointName } from './routes.js'
import { Hold } from './hold.js'
import { faultSnapshotOf, type LedgerSnapshotSource } from './ledger-fault.js'

/** Active fault, with the source of the snapshot that it makes the node serve from. */
export interface ActiveFault {
  readonly fault: Fault
  readonly snapshotSource: LedgerSnapshotSource | undefined
}

/** Faults and holds that apply to one request. */
export interface InjectedFaults {
  readonly faults: readonly ActiveFault[]
  readonly holds: readonly Hold[]
}

interface LimitedFault extends ActiveFault {
  remaining: number
}

/** Faults that tests or the control endpoints have added. */
export class FaultInjector {
  readonly #ledgerNow: () => Ledger
  readonly #active = new Set<LimitedFault>()
  readonly #holds = new Set<Hold>()
  #randomCalls = 0

  /** @internal */
  constructor (ledgerNow: () => Ledger) {
    this.#ledgerNow = ledgerNow
  }

  /** Active faults. */
  get list (): Fault[] {
    return [...this.#active].map(({ fault }) => fault)
  }

  /** Adds a fault, which applies from the next matching request on. */
  add (fault: Fault): { remove: () => void } {
    const entry = {
      fault,
      snapshotSource: faultSnapshotOf(fault, this.#ledgerNow()),
      remaining: fault.times ?? Infinity
    }
    this.#active.add(entry)
    return {
      remove: () => {
        this.#active.delete(entry)
      }
    }
  }

  /** Removes every fault and releases every delayed request. */
  clear (): void {
    this.#active.clear()
    for (const hold of this.#holds) hold.release()
  }

  /** Delays matching requests until the hold is released; with `late` the state is read on arrival, not on release. */
  hold (match?: EndpointName, { late = false }: { late?: boolean } = {}): Hold {
    const hold = new Hold(match, late, () => {
      this.#holds.delete(hold)
    })
    this.#holds.add(hold)
    return hold
  }

  /** @internal Selects the faults and holds for a request, and counts the request against them. */
  takeMatching (endpoint: EndpointName): InjectedFaults {
    const holds = [...this.#holds].filter(hold => hold.match === undefined || hold.match === endpoint)
    const faults = [...this.#active].filter(entry => this.#matches(entry, endpoint))
    for (const hold of holds) hold.arrive()
    return { faults, holds }
  }

  #matches (entry: LimitedFault, endpoint: EndpointName): boolean {
    const { match, share } = entry.fault
    if (match !== undefined && match !== endpoint) return false
    if (share !== undefined && this.#nextRandom() >= share) return false
    if (--entry.remaining <= 0) this.#active.delete(entry)
    return true
  }

  #nextRandom (): number {
    return digestBytes(this.#ledgerNow().seed, 'share', this.#randomCalls++).readUInt32LE() / 2 ** 32
  }
}
