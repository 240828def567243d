import { randomBytes } from 'node:crypto'
import { mkdir, open, readdir, rename, rm, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { readState, writeFlags } from '../cache/disk-files.js'
import { type ChainGeneration } from '../chain/tracker.js'
import { type RegisteredGenerations } from '../chain/generation-registry.js'
import { type GenerationRecord, type UpstreamChain } from '../chain/generation-record.js'
import { decodeWithChecksum, encodeWithChecksum } from './checksummed-json.js'
import { type DiskGeneration, DiskGenerations, type FolderRegistry, nameOfRecord } from './disk-generations.js'
import { parseGeneration } from './parse-replica-records.js'

// Older generations of a chain have nothing that is still served.
const maxGenerations = 4
// Damaged records that stay for an operator to look at.
const maxSetAside = 8
const recordName = /^\d+\.\d+$/
const setAsideName = /^\d{8}-unreadable-/

/** Generations of each chain in the folder of the disk tier: a file each, with anchors, head and space of entries. */
export class DiskGenerationRegistry implements FolderRegistry {
  readonly records = new DiskGenerations()
  readonly #path: string
  #saves = 0

  private constructor (path: string) {
    this.#path = path
  }

  /** Reads all records; sets a damaged one aside and reports its new name. */
  static async open (path: string, onSetAside: (name: string) => void): Promise<DiskGenerationRegistry> {
    const registry = new DiskGenerationRegistry(path)
    const records: DiskGeneration[] = []
    await mkdir(registry.#folder, { recursive: true })
    for (const name of (await readdir(registry.#folder)).filter(name => recordName.test(name))) {
      const record = parseRecord(name, await readState(join(registry.#folder, name)))
      if (record === undefined) onSetAside(await setAside(path, join('generations', name)))
      else {
        records.push(record)
        registry.#saves = Math.max(registry.#saves, record.save)
      }
    }
    registry.records.replace(records)
    return registry
  }

  get #folder (): string {
    return join(this.#path, 'generations')
  }

  async read (chainId: number): Promise<RegisteredGenerations> {
    return this.records.stateOf(chainId)
  }

  /** Claims a number; durable once it resolves. */
  async claim (chainId: number, generation: number, known: GenerationRecord): Promise<boolean> {
    if (this.records.has({ chainId, generation })) return false
    await this.#save({ chainId, generation, known, space: newSpace(chainId, generation), save: ++this.#saves })
    return true
  }

  /** Every chain is in the records, so no upstream needs one of its own. */
  async rememberedUpstreams (): Promise<readonly UpstreamChain[]> {
    return []
  }

  async update (chain: ChainGeneration, known: GenerationRecord): Promise<void> {
    await this.#replace(chain, known, this.records.spaceOf(chain, known) ?? newSpace(chain.id, chain.generation))
  }

  async renew (chain: ChainGeneration, known: GenerationRecord): Promise<void> {
    await this.#replace(chain, known, newSpace(chain.id, chain.generation))
  }

  async #replace ({ id: chainId, generation }: ChainGeneration, known: GenerationRecord, space: string): Promise<void> {
    await this.#save({ chainId, generation, known, space, save: ++this.#saves })
    const outdated = this.records.of(chainId).filter(other => other.generation <= generation - maxGenerations)
    if (outdated.length === 0) return
    this.records.replace(this.records.list.filter(record => !outdated.includes(record)))
    for (const record of outdated) await rm(join(this.#folder, nameOfRecord(record)), { force: true })
  }

  async #save (record: DiskGeneration): Promise<void> {
    const name = nameOfRecord(record)
    await writeDurably(this.#folder, name, encodeWithChecksum(record))
    this.records.replace([...this.records.list.filter(other => nameOfRecord(other) !== name), record])
  }
}

/** Moves what cannot be opened into a folder of its own, under a name that says so; returns the name. */
export async function setAside (path: string, name: string): Promise<string> {
  const folder = join(path, 'set-aside')
  await mkdir(folder, { recursive: true })
  const others = (await readdir(folder)).filter(name => setAsideName.test(name)).sort()
  for (const old of others.slice(0, Math.max(0, others.length - maxSetAside + 1))) {
    // Only a file is varve's; a folder stays.
    await unlink(join(folder, old)).catch(() => {})
  }
  const last = Number(others.at(-1)?.split('-')[0] ?? 0)
  const to = `${String(last + 1).padStart(8, '0')}-unreadable-${name.replaceAll(/[^A-Za-z0-9.]/g, '-')}`
  await rename(join(path, name), join(folder, to))
  return join('set-aside', to)
}

/** Writes a small file that survives a power loss once it resolves. */
export async function writeDurably (folder: string, name: string, text: string): Promise<void> {
  const temporary = join(folder, '..', 'tmp', name)
  const file = await open(temporary, writeFlags)
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

// The name counts too, so that a copy under another name is no record.
function parseRecord (name: string, text: string | undefined): DiskGeneration | undefined {
  const value = decodeWithChecksum(text) as Partial<Record<keyof DiskGeneration, unknown>> | undefined
  const { chainId, generation, space, save } = value ?? {}
  const known = value?.known === undefined ? undefined : parseGeneration(encodeWithChecksum(value.known))
  if (
    known === undefined || typeof chainId !== 'number' || typeof generation !== 'number' || typeof save !== 'number' ||
    typeof space !== 'string' || !/^[0-9.]+-[0-9a-f]{16}$/.test(space) || name !== nameOfRecord({ chainId, generation })
  ) return undefined
  return { chainId, generation, known, space, save }
}

// Random, so that entries of a record that was lost never come back.
function newSpace (chainId: number, generation: number): string {
  return `${chainId}.${generation}-${randomBytes(8).toString('hex')}`
}
