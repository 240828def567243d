import { Anchors } from '../chain/anchors.js'
import { contradicts, type ChainGeneration } from '../chain/tracker.js'
import { type GenerationRegistry, type RegisteredGenerations } from '../chain/generation-registry.js'
import { type GenerationRecord, type UpstreamChain } from '../chain/generation-record.js'

/** Record of one generation in a folder: its chain, and the space that has its entries. */
export interface DiskGeneration {
  readonly chainId: number
  readonly generation: number
  readonly known: GenerationRecord
  readonly space: string
  /** Counts the saves of all records, so that the last one is known. */
  readonly save: number
}

/** Change of the records, which only the process that owns the folder makes. */
export interface DiskChange {
  readonly kind: 'claim' | 'update' | 'renew'
  readonly chain: ChainGeneration
  readonly known: GenerationRecord
}

/** Registry of a folder, as the process that owns the folder and each of its workers see it. */
export interface FolderRegistry extends GenerationRegistry {
  readonly records: DiskGenerations
  /** Saves anchors and head of a generation. A record of another chain loses its entries, which nothing proves. */
  update(chain: ChainGeneration, known: GenerationRecord): Promise<void>
  /** Gives a generation an empty space; durable once it resolves. */
  renew(chain: ChainGeneration, known: GenerationRecord): Promise<void>
}

/** Records of a folder by the name of their file. */
export class DiskGenerations {
  #byName: ReadonlyMap<string, DiskGeneration> = new Map()
  #revision = 0

  /** Grows with every change, so that what was read from the records can be read again. */
  get revision (): number {
    return this.#revision
  }

  get list (): readonly DiskGeneration[] {
    return [...this.#byName.values()]
  }

  replace (records: readonly DiskGeneration[]): void {
    this.#byName = new Map(records.map(record => [nameOfRecord(record), record]))
    this.#revision++
  }

  has (record: Pick<DiskGeneration, 'chainId' | 'generation'>): boolean {
    return this.#byName.has(nameOfRecord(record))
  }

  /** Lists the records of a chain id. */
  of (chainId: number): DiskGeneration[] {
    return this.list.filter(record => record.chainId === chainId)
  }

  /** Returns the records of a chain id as the registry of generations has them. */
  stateOf (chainId: number): RegisteredGenerations {
    return { generations: new Map(this.of(chainId).map(({ generation, known }) => [generation, known])) }
  }

  /** Returns the chain that was served last, of all or of one chain id. */
  lastServed (chainId: number | undefined): UpstreamChain | undefined {
    const records = chainId === undefined ? this.list : this.of(chainId)
    const [last] = records.toSorted((a, b) => b.save - a.save)
    return last && { chainId: last.chainId, generation: last.generation, ...last.known }
  }

  /** Returns the space of a generation if its record is proven to be of the chain that a process serves. */
  spaceOf ({ id, generation }: ChainGeneration, served: GenerationRecord): string | undefined {
    const record = this.#byName.get(nameOfRecord({ chainId: id, generation }))
    return record !== undefined && isSameChain(record.known, served) ? record.space : undefined
  }
}

/** Returns the name of the file of a record. */
export function nameOfRecord ({ chainId, generation }: Pick<DiskGeneration, 'chainId' | 'generation'>): string {
  return `${chainId}.${generation}`
}

function isSameChain (stored: GenerationRecord, served: GenerationRecord): boolean {
  if (stored.anchors.length > 0 || served.anchors.length > 0) {
    return new Anchors(stored.anchors).isSameChain(served.anchors) === true
  }
  return stored.head !== undefined && served.head !== undefined &&
    !contradicts(stored.head.position, served.head.position)
}
