import { type WorkerSlot } from '../peers/messages.js'
import { type WorkerHandle } from '../peers/worker-handle.js'
import { type OpenFolder, slotOf, slotsFor } from './disk-folder.js'

/** Hands out the folders of workers for their disk tiers; what was purged while no worker had it never comes back. */
export class WorkerSlots {
  readonly #folder: OpenFolder
  readonly #maxGb: number
  readonly #slots = new Map<WorkerHandle, number>()
  // Purges that a worker has not confirmed.
  readonly #unconfirmed = new Map<Promise<unknown>, WorkerHandle>()
  readonly #emptying = new Set<number>()
  #count = 1

  constructor (folder: OpenFolder, maxGb: number) {
    this.#folder = folder
    this.#maxGb = maxGb
  }

  /** Returns the slot of a worker, the lowest that is free. */
  slotFor (worker: WorkerHandle, workers: number): WorkerSlot {
    this.#count = slotsFor(workers)
    let slot = 1
    while (this.#isTaken(slot)) slot++
    this.#slots.set(worker, slot)
    return slotOf(this.#folder, slot, this.#maxGb, workers)
  }

  has (worker: WorkerHandle): boolean {
    return this.#slots.has(worker)
  }

  /** Frees the slot of a worker that has exited, and empties it if no later worker may read it. */
  async release (worker: WorkerHandle): Promise<void> {
    const slot = this.#slots.get(worker)
    if (slot === undefined) return
    const isOutdated = [...this.#unconfirmed.values()].includes(worker)
    if (slot > this.#count || isOutdated) await this.#folder.emptySlot(slot)
    this.#slots.delete(worker)
    for (const [purge, purging] of this.#unconfirmed) if (purging === worker) this.#unconfirmed.delete(purge)
  }

  /** Empties the slots that no worker has, because a purge reaches only workers. */
  async emptyFree (): Promise<void> {
    const free = Array.from({ length: this.#count }, (_, at) => at + 1).filter(slot => !this.#isTaken(slot))
    for (const slot of free) this.#emptying.add(slot)
    for (const slot of free) await this.#folder.emptySlot(slot).finally(() => this.#emptying.delete(slot))
  }

  /** Awaits a purge of a worker, whose exit empties its slot unless the purge has succeeded by then. */
  async confirm<T> (worker: WorkerHandle, purge: Promise<T>): Promise<T> {
    this.#unconfirmed.set(purge, worker)
    const result = await purge
    this.#unconfirmed.delete(purge)
    return result
  }

  #isTaken (slot: number): boolean {
    return this.#emptying.has(slot) || [...this.#slots.values()].includes(slot)
  }

  async close (): Promise<void> {
    await this.#folder.close()
  }
}
