import { createHash } from 'node:crypto'
import { type SpacePlace, withSpace } from '../chain/space-places.js'
import { type SpaceRecord } from '../chain/space.js'
import { type LastSpace, parseLastSpace, parseSpaces, encodeWithChecksum } from './parse-records.js'
import { changeRecord, type Records } from './records.js'

/** An upstream of this process whose space is remembered. */
export interface RememberedUpstream {
  /** URL that may hold a secret, so the record carries its digest. */
  readonly url: string
  /** Returns true if the upstream was verified to be on our chain. */
  readonly isOnChain: () => boolean
}

const lastSpaceName = 'last space'

/** Spaces of each chain id, as one record that peers replace by comparison, so none is lost. */
export class RecordedSpaces implements SpacePlace {
  readonly #records: Records
  readonly #upstreams: (() => readonly RememberedUpstream[]) | undefined
  #lastName: string | undefined
  #error: string | undefined

  /** Without upstreams, remembers the space that was recorded last. */
  constructor (records: Records, upstreams?: () => readonly RememberedUpstream[]) {
    this.#records = records
    this.#upstreams = upstreams
  }

  /** Reason why the last change was rejected. */
  get error (): string | undefined {
    return this.#error
  }

  async read (chainId: number): Promise<readonly SpaceRecord[]> {
    return parseSpaces(await this.#records.read(spacesNameOf(chainId)), chainId)
  }

  async put (record: SpaceRecord, replacesAll = false): Promise<readonly SpaceRecord[]> {
    let after: readonly SpaceRecord[] = []
    try {
      await changeRecord(this.#records, spacesNameOf(record.chainId), text => {
        const before = parseSpaces(text, record.chainId)
        after = withSpace(before, record, replacesAll)
        return after === before ? undefined : encodeWithChecksum(after)
      })
      const isLast = this.#upstreams === undefined && after.some(({ name }) => name === record.name)
      // Not awaited: a failed `remember` is repeated with the next record.
      if (isLast && this.#lastName !== record.name) this.remember(record).catch(() => {})
      this.#error = undefined
      return after
    } catch (error) {
      this.#error = (error as Error).message
      throw error
    }
  }

  async remembered (): Promise<readonly LastSpace[]> {
    const names = this.#upstreams?.().map(({ url }) => lastSpaceNameOf(url)) ?? [lastSpaceName]
    const texts = await Promise.all(names.map(async name => await this.#records.read(name)))
    return texts.map(parseLastSpace).filter(space => space !== undefined)
  }

  /** Remembers the space of verified upstreams; records of other upstreams stay. */
  async remember ({ chainId, name }: LastSpace): Promise<void> {
    const text = encodeWithChecksum({ chainId, name })
    const known = this.#upstreams?.().filter(({ isOnChain }) => isOnChain())
    if (known === undefined) {
      await changeRecord(this.#records, lastSpaceName, before => before === text ? undefined : text)
      this.#lastName = name
      return
    }
    await Promise.all(known.map(async ({ url }) => await changeRecord(this.#records, lastSpaceNameOf(url), () => text)))
  }
}

function spacesNameOf (chainId: number): string {
  return `spaces ${chainId}`
}

function lastSpaceNameOf (url: string): string {
  const digest = createHash('sha256').update(url.replace(/\/+$/, '')).digest('base64url').slice(0, 22)
  return `${lastSpaceName} ${digest}`
}
