import { randomBytes } from 'node:crypto'
import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Anchors } from '../chain/anchors.js'
import { contradicts, type ChainGeneration } from '../chain/tracker.js'
import { type GenerationRegistry, type RegistryState } from '../chain/generation-registry.js'
import { type GenerationRecord, type UpstreamChain } from '../chain/generation-record.js'
import { decodeWithChecksum, encodeWithChecksum } from './checksummed-json.js'
import { parseGeneration } from './parse-replica-records.js'

/** Record of one generation in a folder: its chain, and the space that has its entries. */
interface DiskRecord {
  readonly chainId: number
  readonly generation: number
  readonly known: GenerationRecord
  readonly space: string
  /** Counts the saves of all records, so that the last one is known. */
  readonly save: number
}

// Older generations of a chain have nothing that is still served.
const maxGenerations = 4
// Damaged records that stay for an operator to look at.
const maxSetAside = 8

/** Generations of each chain in the folder of the disk tier: a file each, with anchors, head and space of entries. */
export class DiskRegistry implements GenerationRegistry {
  readonly #path: string
  readonly #records = new Map<string, DiskRecord>()
  #saves = 0

  private constructor (path: string) {
    this.#path = path
  }

  /** Reads all records; sets a damaged one aside and reports its new name. */
  static async open (path: string, onSetAside: (name: string) => void): Promise<DiskRegistry> {
    const registry = new DiskRegistry(path)
    await mkdir(registry.#folder, { recursive: true })
    for (const name of await readdir(registry.#folder)) {
      const record = parseRecord(name, await readFile(join(registry.#folder, name), 'utf8').catch(() => undefined))
      if (record === undefined) onSetAside(await setAside(path, join('generations', name)))
      else {
        registry.#records.set(nameOf(record), record)
        registry.#saves = Math.max(registry.#saves, record.save)
      }
    }
    return registry
  }

  get #folder (): string {
    return join(this.#path, 'generations')
  }

  async read (chainId: number): Promise<RegistryState> {
    return { generations: new Map(this.#recordsOf(chainId).map(({ generation, known }) => [generation, known])) }
  }

  /** Claims a number; durable once it resolves. */
  async claim (chainId: number, generation: number, known: GenerationRecord): Promise<boolean> {
    if (this.#records.has(nameOf({ chainId, generation }))) return false
    await this.#save({ chainId, generation, known, space: newSpace(chainId, generation), save: ++this.#saves })
    return true
  }

  /** Every chain is in the records, so no upstream needs one of its own. */
  async rememberedUpstreams (): Promise<readonly UpstreamChain[]> {
    return []
  }

  /** Returns the chain that was served last, of all or of one chain id. */
  lastServed (chainId: number | undefined): UpstreamChain | undefined {
    const records = chainId === undefined ? [...this.#records.values()] : this.#recordsOf(chainId)
    const [last] = records.sort((a, b) => b.save - a.save)
    return last && { chainId: last.chainId, generation: last.generation, ...last.known }
  }

  /** Returns the space of a generation if its record is proven to be of the chain that a process serves. */
  spaceOf ({ id, generation }: ChainGeneration, served: GenerationRecord): string | undefined {
    const record = this.#records.get(nameOf({ chainId: id, generation }))
    return record !== undefined && isSameChain(record.known, served) ? record.space : undefined
  }

  /** Saves anchors and head of a generation. A record of another chain loses its entries, which nothing proves. */
  async update (chain: ChainGeneration, known: GenerationRecord): Promise<void> {
    await this.#replace(chain, known, this.spaceOf(chain, known) ?? newSpace(chain.id, chain.generation))
  }

  /** Gives a generation an empty space; durable once it resolves. */
  async renew (chain: ChainGeneration, known: GenerationRecord): Promise<void> {
    await this.#replace(chain, known, newSpace(chain.id, chain.generation))
  }

  async #replace ({ id: chainId, generation }: ChainGeneration, known: GenerationRecord, space: string): Promise<void> {
    await this.#save({ chainId, generation, known, space, save: ++this.#saves })
    const outdated = this.#recordsOf(chainId).filter(other => other.generation <= generation - maxGenerations)
    for (const record of outdated) {
      this.#records.delete(nameOf(record))
      await rm(join(this.#folder, nameOf(record)), { force: true })
    }
  }

  #recordsOf (chainId: number): DiskRecord[] {
    return [...this.#records.values()].filter(record => record.chainId === chainId)
  }

  async #save (record: DiskRecord): Promise<void> {
    await writeDurably(this.#folder, nameOf(record), encodeWithChecksum(record))
    this.#records.set(nameOf(record), record)
  }
}

/** Moves what cannot be opened into a folder of its own, under a name that says so; returns the name. */
export async function setAside (path: string, name: string): Promise<string> {
  const folder = join(path, 'set-aside')
  await mkdir(folder, { recursive: true })
  const others = (await readdir(folder)).sort()
  for (const old of others.slice(0, Math.max(0, others.length - maxSetAside + 1))) {
    await rm(join(folder, old), { recursive: true, force: true })
  }
  const last = Number(others.at(-1)?.split('-')[0] ?? 0)
  const to = `${String(last + 1).padStart(8, '0')}-unreadable-${name.replaceAll(/[^A-Za-z0-9.]/g, '-')}`
  await rename(join(path, name), join(folder, to))
  return join('set-aside', to)
}

/** Writes a small file that survives a power loss once it resolves. */
export async function writeDurably (folder: string, name: string, text: string): Promise<void> {
  const temporary = join(folder, '..', 'tmp', name)
  const file = await open(temporary, 'w')
  try {
    await file.writeFile(text)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(temporary, join(folder, name))
  const opened = await open(folder, 'r')
  try {
    await opened.sync()
  } finally {
    await opened.close()
  }
}

function isSameChain (stored: GenerationRecord, served: GenerationRecord): boolean {
  if (stored.anchors.length > 0 || served.anchors.length > 0) {
    return new Anchors(stored.anchors).isSameChain(served.anchors) === true
  }
  return stored.head !== undefined && served.head !== undefined &&
    !contradicts(stored.head.position, served.head.position)
}

// The name counts too, so that a copy under another name is no record.
function parseRecord (name: string, text: string | undefined): DiskRecord | undefined {
  const value = decodeWithChecksum(text) as Partial<Record<keyof DiskRecord, unknown>> | undefined
  const { chainId, generation, space, save } = value ?? {}
  const known = value?.known === undefined ? undefined : parseGeneration(encodeWithChecksum(value.known))
  if (
    known === undefined || typeof chainId !== 'number' || typeof generation !== 'number' || typeof save !== 'number' ||
    typeof space !== 'string' || !/^[0-9.]+-[0-9a-f]{16}$/.test(space) || name !== nameOf({ chainId, generation })
  ) return undefined
  return { chainId, generation, known, space, save }
}

function nameOf ({ chainId, generation }: Pick<DiskRecord, 'chainId' | 'generation'>): string {
  return `${chainId}.${generation}`
}

// Random, so that entries of a record that was lost never come back.
function newSpace (chainId: number, generation: number): string {
  return `${chainId}.${generation}-${randomBytes(8).toString('hex')}`
}
