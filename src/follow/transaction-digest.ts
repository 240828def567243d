import { setImmediate as nextTurn } from 'node:timers/promises'
import { readAddress } from '../api/address.js'
import { type ByteRange, eachItemIn, membersIn, stringIn, u64In } from '../api/json-scan.js'
import {
  digestOf,
  digestOfHash,
  wildcardDigest,
  featuresTag,
  frameworkAddress,
  publishedCode,
  resourceKey,
  type StateDigest,
  stateKeyHash,
  structTagOf
} from '../api/state-key.js'
import { hasSettledMembers } from '../api/body-facts.js'
import { readTypeTag, type TypeTag } from '../api/type-tag.js'

/** Reasons why a transaction counts as a change of everything. */
export const touchAllReasons = [
  'start',
  'gap',
  'mismatch',
  'reset',
  'unreadable',
  'unknown_kind',
  'unknown_change',
  'unlisted',
  'unverified',
  'genesis',
  'epoch',
  'features',
  'config'
] as const

/** Reason why everything counts as changed. */
export type TouchAllReason = typeof touchAllReasons[number]

/** Transaction as the last-touched table needs it. */
export interface TransactionDigest {
  readonly version: bigint
  /** Root of the accumulator at the version; undefined for a version that was stepped over. */
  readonly root: string | undefined
  /** Hashes that find the transaction in BCS: of itself, of its events and of its changes, in this order. */
  readonly hashes: readonly [transaction: string, events: string, changes: string] | undefined
  /** Digests of every changed key, of the sets that each key belongs to, and of the transaction's own hash. */
  readonly touched: readonly StateDigest[]
  readonly touchesAll: TouchAllReason | undefined
}

type Members = ReadonlyMap<string, ByteRange>

const emptyWriteSetHash = 'afb6e14fe47d850fd0a7395bcfb997ffacf4715e0f895cc162c218e4a7564bc6'

const knownKinds = new Set([
  'user_transaction',
  'block_metadata_transaction',
  'state_checkpoint_transaction',
  'validator_transaction',
  'block_epilogue_transaction'
])

// Resources whose change can change responses to reads of other keys.
const widelyRead = new Map<StateDigest, TouchAllReason>(
  ([
    [featuresTag, 'features'],
    [structTagOf('0x1::reconfiguration::Configuration'), 'epoch'],
    [structTagOf('0x1::version::Version'), 'config'],
    [structTagOf('0x1::gas_schedule::GasScheduleV2'), 'config'],
    [structTagOf('0x1::execution_config::ExecutionConfig'), 'config']
  ] as const).flatMap(([tag, reason]) => {
    const key = resourceKey(frameworkAddress, tag)
    return key === undefined ? [] : [[digestOf(key), reason] as const]
  })
)

/** Scans a page of transactions in JSON, in turns with other work; undefined if any version or root is not certain. */
export async function readTouchedKeys (body: Buffer): Promise<TransactionDigest[] | undefined> {
  const turns = new ScanTurns()
  const scanner = new ChangeScanner(body, turns)
  const digests: TransactionDigest[] = []
  const items = eachItemIn(body)
  for (;;) {
    const next = items.next()
    if (next.done === true) return next.value ? digests : undefined
    await turns.skipped(next.value.to - next.value.from)
    const digest = await readDigest(scanner, body, next.value)
    if (digest === undefined) return undefined
    digests.push(digest)
    await turns.reached(next.value.to)
  }
}

async function readDigest (
  scanner: ChangeScanner,
  body: Buffer,
  item: ByteRange
): Promise<TransactionDigest | undefined> {
  const members = membersIn(body, item)
  const version = u64In(body, members?.get('version'))
  const root = hashIn(body, members?.get('accumulator_root_hash'))
  if (members === undefined || version === undefined || root === undefined) return undefined
  // Law 12: unknown means changed. A transaction that is not history yet may still change.
  if (!hasSettledMembers(body, members)) return undefined
  const [hash, events, changes] = ['hash', 'event_root_hash', 'state_change_hash'].map(name =>
    hashIn(body, members.get(name))
  )
  const hashes = hash && events && changes ? [hash, events, changes] as const : undefined
  const { touched, touchesAll } = await scanner.read(members.get('changes'))
  const kind = stringIn(body, members.get('type')) ?? ''
  return {
    version,
    root,
    hashes,
    touched: hash === undefined ? touched : [...touched, digestOfHash(hash)],
    touchesAll: reasonOfKind(kind, touched, changes) ?? touchesAll
  }
}

/** Returns why a whole transaction touches everything; an empty list is true only under the hash of the empty set. */
function reasonOfKind (
  kind: string,
  touched: readonly StateDigest[],
  changesHash: string | undefined
): TouchAllReason | undefined {
  if (kind === 'genesis_transaction') return 'genesis'
  if (!knownKinds.has(kind)) return 'unknown_kind'
  return touched.length === 0 && changesHash !== emptyWriteSetHash ? 'unlisted' : undefined
}

/** Digests of the changes of one transaction. */
interface Changes {
  readonly touched: readonly StateDigest[]
  readonly touchesAll: TouchAllReason | undefined
}

const unreadable: Changes = { touched: [], touchesAll: 'unreadable' }

/** Reads the changes of one page, and remembers the tags that it has parsed. */
class ChangeScanner {
  readonly #body: Buffer
  readonly #turns: ScanTurns
  readonly #tags = new Map<string, TypeTag | undefined>()
  readonly #sets = new Map<string, StateDigest>()

  constructor (body: Buffer, turns: ScanTurns) {
    this.#body = body
    this.#turns = turns
  }

  async read (list: ByteRange | undefined): Promise<Changes> {
    if (list === undefined) return unreadable
    const touched = new Set<StateDigest>()
    let touchesAll: TouchAllReason | undefined
    const changes = eachItemIn(this.#body, list)
    for (;;) {
      const next = changes.next()
      if (next.done === true) return next.value ? { touched: [...touched], touchesAll } : unreadable
      touchesAll = this.#readChange(next.value, touched) ?? touchesAll
      await this.#turns.reached(next.value.to)
    }
  }

  #readChange (change: ByteRange, touched: Set<StateDigest>): TouchAllReason | undefined {
    const members = membersIn(this.#body, change)
    const hash = hashIn(this.#body, members?.get('state_key_hash'))
    if (members === undefined || hash === undefined) return 'unreadable'
    const key = digestOfHash(hash)
    touched.add(key)
    switch (this.#text(members, 'type')) {
      case 'write_table_item':
      case 'delete_table_item':
        return this.#addSet('items', members, 'handle', touched)
      case 'write_module':
      case 'delete_module':
        touched.add(publishedCode)
        return this.#addSet('modules', members, 'address', touched)
      case 'write_resource':
        return this.#addResource(members, hash, this.#typeOfValue(members), touched) ?? widelyRead.get(key)
      case 'delete_resource':
        return this.#addResource(members, hash, this.#text(members, 'resource'), touched) ?? widelyRead.get(key)
      default:
        return 'unknown_change'
    }
  }

  /** Adds the sets of a resource. A key that the resource's own type does not explain is the key of its group. */
  #addResource (
    members: Members,
    hash: string,
    type: string | undefined,
    touched: Set<StateDigest>
  ): TouchAllReason | undefined {
    const address = this.#address(members, 'address')
    if (address === undefined || type === undefined) return 'unreadable'
    const tag = this.#tagOf(type)
    const key = tag && resourceKey(address, tag)
    if (key === undefined || stateKeyHash(key) !== hash) touched.add(this.#setOf('groups', address))
    touched.add(this.#setOf('resources', address))
    return undefined
  }

  #addSet (
    set: 'items' | 'modules',
    members: Members,
    name: string,
    touched: Set<StateDigest>
  ): TouchAllReason | undefined {
    const address = this.#address(members, name)
    if (address === undefined) return 'unreadable'
    touched.add(this.#setOf(set, address))
    return undefined
  }

  #setOf (set: 'items' | 'modules' | 'groups' | 'resources', address: string): StateDigest {
    const name = `${set} ${address}`
    const digest = this.#sets.get(name) ?? wildcardDigest(set, address)
    this.#sets.set(name, digest)
    return digest
  }

  /** Returns an address as 64 hex digits; undefined for any other text, since it would name other sets. */
  #address (members: Members, name: string): string | undefined {
    const text = this.#text(members, name)
    return text === undefined ? undefined : readAddress(text)
  }

  #tagOf (text: string): TypeTag | undefined {
    if (!this.#tags.has(text)) this.#tags.set(text, readTypeTag(text))
    return this.#tags.get(text)
  }

  #typeOfValue (members: Members): string | undefined {
    const data = members.get('data')
    const value = data && membersIn(this.#body, data)
    return value && this.#text(value, 'type')
  }

  #text (members: Members, name: string): string | undefined {
    return stringIn(this.#body, members.get(name))
  }
}

/** Returns the 64 hex digits of a hash; undefined for any other value. */
function hashIn (body: Buffer, value: ByteRange | undefined): string | undefined {
  if (value === undefined || value.to - value.from !== 68) return undefined
  const text = body.toString('latin1', value.from + 1, value.to - 1)
  return /^0x[0-9a-f]{64}$/.test(text) ? text.slice(2) : undefined
}

// Bounds a turn to some milliseconds: changes of this size take so long to read, in JSON and in BCS.
const turnBytes = 32 * 1024

/** Lets other work run between parts of a scan, because a page of megabytes would block hits for a second. */
export class ScanTurns {
  #endsAt = turnBytes

  /** Gives other work a turn after the end of a large value was found, since that search is a scan of its own. */
  async skipped (bytes: number): Promise<void> {
    if (bytes >= turnBytes) await nextTurn()
  }

  /** Gives other work a turn if the scan has come far enough since the last one. */
  async reached (at: number): Promise<void> {
    if (at < this.#endsAt) return
    await nextTurn()
    this.#endsAt = at + turnBytes
  }
}
