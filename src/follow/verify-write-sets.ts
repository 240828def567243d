import { createHash, hash } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { digestOf, wildcardDigest, publishedCode, type StateDigest } from '../api/state-key.js'
import { ScanTurns, type TransactionDigest } from './transaction-digest.js'

/** Results of checking a page in BCS against the hashes that its transactions commit to. */
export const verifyResults = ['equal', 'different', 'unavailable'] as const

/** Result of checking a page. */
export type VerifyResult = typeof verifyResults[number]

const writeSetPrefix = hash('sha3-256', 'APTOS::WriteSet', 'buffer')
const [pathKind, itemKind, rawKind] = [0, 1, 2]
const [codePath, , groupPath] = [0, 1, 2]
const addressLength = 32
const u64Length = 8
// Bytes that one turn hashes, which takes some milliseconds.
const hashedBytes = 1024 * 1024

/**
 * Compares the changes that a page listed in JSON with the write sets of the same page in BCS, whose bytes must have
 * the hash that each transaction commits to. A write set is found by the hashes around it, which no payload can
 * contain, because they depend on the payload. Runs in turns with other work.
 */
export async function verifyWriteSets (page: readonly TransactionDigest[], bcs: Buffer): Promise<VerifyResult> {
  const turns = new ScanTurns()
  try {
    const reader = new BcsReader(bcs)
    if (reader.length() !== page.length) return 'unavailable'
    for (const transaction of page) {
      const result = await verifyTransaction(transaction, reader, turns)
      if (result !== 'equal') return result
    }
    return reader.isAtEnd ? 'equal' : 'unavailable'
  } catch (error) {
    if (error instanceof UnreadableBcsError) return 'unavailable'
    throw error
  }
}

async function verifyTransaction (
  { version, root, hashes, touched }: TransactionDigest,
  reader: BcsReader,
  turns: ScanTurns
): Promise<VerifyResult> {
  if (hashes === undefined || root === undefined || reader.u64() !== version) return 'unavailable'
  reader.skipPast(Buffer.from(hashes.join(''), 'hex'))
  reader.skipPast(Buffer.from(root, 'hex'))
  const from = reader.at
  const isListed = await readWriteSet(reader, new Set(touched), turns)
  const [, , changesHash] = hashes
  return isListed && await hashOf(reader.since(from)) === changesHash ? 'equal' : 'different'
}

/** Reads a write set; returns true if every key that it touches is listed. */
async function readWriteSet (
  reader: BcsReader,
  listed: ReadonlySet<StateDigest>,
  turns: ScanTurns
): Promise<boolean> {
  if (reader.byte() !== 0) throw new UnreadableBcsError('unknown form of a write set')
  let isListed = true
  for (let left = reader.length(); left > 0; left--) {
    isListed = readStateKey(reader).every(key => listed.has(key)) && isListed
    skipWriteOp(reader)
    await turns.reached(reader.at)
  }
  return isListed
}

/** Hashes a write set in turns, because megabytes at once would block hits for tens of milliseconds. */
async function hashOf (writeSet: Buffer): Promise<string> {
  const hashed = createHash('sha3-256').update(writeSetPrefix)
  for (let at = 0; at < writeSet.length; at += hashedBytes) {
    if (at > 0) await nextTurn()
    hashed.update(writeSet.subarray(at, at + hashedBytes))
  }
  return hashed.digest('hex')
}

/** Reads a state key, and returns the digests that a change of this key touches. */
function readStateKey (reader: BcsReader): StateDigest[] {
  const kind = reader.byte()
  if (kind === rawKind) throw new UnreadableBcsError('a raw state key')
  if (kind !== pathKind && kind !== itemKind) throw new UnreadableBcsError('unknown kind of state key')
  const address = reader.bytes(addressLength)
  const digits = address.toString('hex')
  const from = reader.at
  const path = reader.bytes(reader.length())
  // The hash covers an item's key without its length, but a path with its length.
  if (kind === itemKind) {
    return [digestOf(Buffer.concat([Buffer.from([kind]), address, path])), wildcardDigest('items', digits)]
  }
  const key = digestOf(Buffer.concat([Buffer.from([kind]), address, reader.since(from)]))
  if (path[0] === codePath) return [key, publishedCode, wildcardDigest('modules', digits)]
  return [key, wildcardDigest('resources', digits), ...path[0] === groupPath ? [wildcardDigest('groups', digits)] : []]
}

// Kinds 0 to 2 are a creation, a modification and a deletion; 3 to 5 are the same with metadata.
function skipWriteOp (reader: BcsReader): void {
  const kind = reader.byte()
  if (kind > 5) throw new UnreadableBcsError('unknown kind of write')
  if (kind % 3 !== 2) reader.bytes(reader.length())
  if (kind >= 3) skipMetadata(reader)
}

function skipMetadata (reader: BcsReader): void {
  const form = reader.byte()
  if (form > 1) throw new UnreadableBcsError('unknown form of metadata')
  reader.bytes((form + 2) * u64Length)
}

class UnreadableBcsError extends Error {}

/** Reads BCS from the start of a buffer; throws if the bytes end too early. */
class BcsReader {
  readonly #buffer: Buffer
  #at = 0

  constructor (buffer: Buffer) {
    this.#buffer = buffer
  }

  get at (): number {
    return this.#at
  }

  get isAtEnd (): boolean {
    return this.#at === this.#buffer.length
  }

  byte (): number {
    return this.bytes(1).readUInt8()
  }

  u64 (): bigint {
    return this.bytes(u64Length).readBigUInt64LE()
  }

  bytes (count: number): Buffer {
    const bytes = this.#buffer.subarray(this.#at, this.#at + count)
    if (bytes.length !== count) throw new UnreadableBcsError('the bytes end too early')
    this.#at += count
    return bytes
  }

  /** Reads a length, which BCS prints in groups of seven bits. */
  length (): number {
    let length = 0
    for (let shift = 0; shift < 32; shift += 7) {
      const byte = this.byte()
      length += (byte & 0x7f) * 2 ** shift
      if (byte < 0x80) return length
    }
    throw new UnreadableBcsError('a length is too long')
  }

  /** Moves behind the next occurrence of some bytes. */
  skipPast (bytes: Buffer): void {
    const found = this.#buffer.indexOf(bytes, this.#at)
    if (found === -1) throw new UnreadableBcsError('a hash is missing')
    this.#at = found + bytes.length
  }

  since (from: number): Buffer {
    return this.#buffer.subarray(from, this.#at)
  }
}
