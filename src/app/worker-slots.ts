import { type WorkerSlot } from '../peers/messages.js'
import { type WorkerHandle } from '../peers/worker-handle.js'
import { type OpenFolder, slotOf, slotsFor } from './disk-folder.js'

/** Hands out the folders of workers for their disk tiers; what was purged while no worker had it never comes back. */
export class WorkerSlots {
  readonly #folder: OpenFolder
  readonly #maxGb: number
  readonly #slots = new Map<WorkerHandle, number>()
  // Slots whose worker may have missed a purge.
  readonly #outdated = new Set<number>()
  #count = 1

  constructor (folder: OpenFolder, maxGb: number) {
    this.#folder = folder
    this.#maxGb = maxGb
  }

  /** Returns the slot of a worker, the lowest that is free. */
  slotFor (worker: WorkerHandle, workers: number): WorkerSlot {
    this.#count = slotsFor(workers)
    const taken = new Set(this.#slots.values())
    let slot = 1
    while (taken.has(slot)) slot++
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
    if (slot > this.#count || this.#outdated.delete(slot)) await this.#folder.emptySlot(slot)
    this.#slots.delete(worker)
  }

  /** Empties the slots that no worker has, after a purge; those of workers that did not confirm it, once they exit. */
  async purged (unconfirmed: readonly WorkerHandle[]): Promise<void> {
    for (const worker of unconfirmed) {
      const slot = this.#slots.get(worker)
      if (slot !== undefined) this.#outdated.add(slot)
    }
    const taken = new Set(this.#slots.values())
    for (let slot = 1; slot <= this.#count; slot++) if (!taken.has(slot)) await this.#folder.emptySlot(slot)
  }

  async close (): Promise<void> {
    await this.#folder.close()
  }
}
