import { type RedisLink } from '../redis/link.js'
import { type ResponsePosition } from '../api/position.js'
import { type StateDigest } from '../api/state-key.js'
import { type FollowedHead } from '../follow/ledger-knowledge.js'
import { touchAllReasons, type TransactionDigest } from '../follow/transaction-digest.js'
import { isListOf, isObject, isStamped, decodeWithChecksum, encodeWithChecksum } from './parse-records.js'

// Lease of a reader: another host replaces a reader that dies after this time.
const leaseMs = 2000
// Lease left after an append: another host takes over soon if this reader reads no more.
const idleLeaseMs = 500
// Limits commands on the Stream: no read of a client waits for them, but the next head does.
const timeoutMs = 250
/** Entries that one call of `next` reads. */
export const maxEntries = 8
// Bounds the bytes of the Stream, and its entries to those of about a minute (law 10: nothing grows without bound).
const maxBytes = 16 * 1024 * 1024
const maxLength = 256
const ttlSeconds = 60
// Keeps a stop for a day, because a host that reads no digests at the moment learns of the stop later.
const stopTtlSeconds = 86_400
/** Longer texts are not appended. */
export const maxTextLength = maxBytes / 16
const invalidReply = new Error('Redis responds to a script with what it cannot return')

// Reads Redis's time, the lease's holder, the last stop, and the entries after an id. Without entries, takes or renews
// the lease, unless the lease's time is 0.
const nextScript = `
local time = redis.call('TIME')
local holder = redis.call('GET', KEYS[2])
local stop = redis.call('GET', KEYS[3]) or ''
local found = redis.call('XREAD', 'COUNT', ARGV[4], 'STREAMS', KEYS[1], ARGV[1])
if found then return {time[1], time[2], holder or '', 0, stop, found[1][2]} end
if ARGV[3] == '0' or (holder and holder ~= ARGV[2]) then return {time[1], time[2], holder or '', 0, stop, {}} end
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
return {time[1], time[2], ARGV[2], holder and 1 or 2, stop, {}}
`

// Appends a digest under its version, so that digests of two readers never mix. Appends none after a stop or after a
// digest that its reader has not seen.
const appendScript = `
local function isAbove(version, nth, thanVersion, thanNth)
  if #version ~= #thanVersion then return #version > #thanVersion end
  if version ~= thanVersion then return version > thanVersion end
  return tonumber(nth) > tonumber(thanNth)
end
local stop = redis.call('GET', KEYS[3])
if stop and stop ~= ARGV[10] then return 'stopped' end
local time = redis.call('TIME')
if time[1] * 1000 + time[2] / 1000 < tonumber(ARGV[6]) then return 'stepped' end
local version, nth = ARGV[3], -1
if ARGV[1] == version then nth = tonumber(ARGV[2]) end
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
if newest then
  local newestVersion, newestNth = string.match(newest[1], '^(%d+)-(%d+)$')
  if isAbove(newestVersion, newestNth, ARGV[1], ARGV[2]) then return 'behind' end
  if isAbove(newestVersion, '0', version, '0') then return 'behind' end
  if newestVersion == version then nth = math.max(nth, tonumber(newestNth)) end
end
local id = string.format('%s-%d', version, nth + 1)
redis.call('XADD', KEYS[1], 'MAXLEN', ARGV[5], id, 'digest', ARGV[4])
redis.call('EXPIRE', KEYS[1], ARGV[7])
if redis.call('GET', KEYS[2]) == ARGV[8] then redis.call('PEXPIRE', KEYS[2], ARGV[9]) end
return id
`

// Drops all digests, because they are wrong, and writes the stop to a key of its own, where every host sees it.
const stopScript = `
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[3], ARGV[1], 'EX', ARGV[2])
`

const releaseScript = `
if redis.call('GET', KEYS[2]) == ARGV[1] then return redis.call('DEL', KEYS[2]) end
return 0
`

/** Place in the Stream: an id of Redis. */
export interface Place {
  readonly version: bigint
  readonly nth: number
}

/** Entry of the Stream with its place. */
export interface StreamEntry {
  readonly place: Place
  readonly text: string
}

/** Part of the Stream after a place, with the state of the lease. */
export interface StreamTurn {
  /** Redis's time. */
  readonly timeMs: number
  readonly holder: string
  readonly lease: 'none' | 'renewed' | 'taken'
  /** The last stop of a host; empty without one. */
  readonly stop: string
  readonly entries: readonly StreamEntry[]
}

/** Stream of digests in Redis whose ids are versions, and the lease of the host that reads the tail for all. */
export class DigestStream {
  readonly #link: Pick<RedisLink, 'runScript'>
  readonly #keys: readonly [stream: string, lease: string, stop: string]
  readonly #source: string

  /** `source` names this process. */
  constructor (link: Pick<RedisLink, 'runScript'>, prefix: string, name: string, source: string) {
    this.#link = link
    // One hash tag, because a cluster runs a script on keys of one slot only.
    const stream = `${prefix}{tail:${name}}`
    this.#keys = [stream, `${stream}:lease`, `${stream}:stop`]
    this.#source = source
  }

  /** Reads the entries after a place. Without entries, takes or renews the lease if this process may lead. */
  async next (place: Place, mayLead: boolean): Promise<StreamTurn> {
    return parseTurn(await this.#eval(nextScript, idOf(place), this.#source, mayLead ? leaseMs : 0, maxEntries))
  }

  /**
   * Appends a text under a version and returns its place. Undefined after an unread entry or an unknown stop, or while
   * Redis's clock is before the earliest time that it can have.
   */
  async append (
    read: Place,
    version: bigint,
    text: string,
    earliestMs: number,
    knownStop: string
  ): Promise<Place | undefined> {
    const length = Math.floor(maxBytes / Math.max(text.length, maxBytes / maxLength))
    const { version: after, nth } = read
    return parsePlace(
      await this.#eval(
        appendScript,
        after,
        nth,
        version,
        text,
        length,
        earliestMs,
        ttlSeconds,
        this.#source,
        idleLeaseMs,
        knownStop
      )
    )
  }

  /** Drops all entries, and leaves a stop; `stop` is a text that no other stop has. */
  async stop (stop: string): Promise<void> {
    await this.#eval(stopScript, stop, stopTtlSeconds)
  }

  /** Ends the lease of this process. */
  async release (): Promise<void> {
    await this.#eval(releaseScript, this.#source)
  }

  async #eval (script: string, ...args: Array<string | number | bigint>): Promise<unknown> {
    return await this.#link.runScript('tail', script, this.#keys, args.map(String), timeoutMs)
  }
}

/** Returns the id of a place. */
export function idOf ({ version, nth }: Place): string {
  return `${version}-${nth}`
}

function parsePlace (id: unknown): Place | undefined {
  const [, version, nth] = /^([0-9]{1,20})-([0-9]{1,15})$/.exec(typeof id === 'string' ? id : '') ?? []
  return version === undefined || nth === undefined ? undefined : { version: BigInt(version), nth: Number(nth) }
}

/** Parses the reply of Redis to a turn; throws for what the script cannot return. */
function parseTurn (reply: unknown): StreamTurn {
  const [seconds, micros, holder, lease, stop, found] = Array.isArray(reply) ? reply as unknown[] : []
  const timeMs = Number(seconds) * 1000 + Number(micros) / 1000
  if (
    !Number.isFinite(timeMs) || typeof holder !== 'string' || typeof stop !== 'string' || !Array.isArray(found)
  ) throw invalidReply
  return {
    timeMs,
    holder,
    lease: lease === 0 ? 'none' : lease === 1 ? 'renewed' : 'taken',
    stop,
    entries: found.map((entry: unknown) => {
      const [id, fields] = Array.isArray(entry) ? entry as unknown[] : []
      const [, text] = Array.isArray(fields) ? fields as unknown[] : []
      const place = parsePlace(id)
      if (place === undefined || typeof text !== 'string') throw invalidReply
      return { place, text }
    })
  }
}

/** Part of the tail that one host has read for the others. */
export interface SentDigest {
  /** Names the reader. */
  readonly source: string
  /** Redis's time at a moment not after the request to the upstream. */
  readonly askedAtMs: number
  readonly after: FollowedHead
  readonly transactions: readonly TransactionDigest[]
  /** Position of the last transaction; undefined if the end of the tail was not reached. */
  readonly stamped: ResponsePosition | undefined
  /** True if write sets were verified, or the transaction counts as a change of everything. */
  readonly isVerified: boolean
}

/** Serialises a digest; keys are numbers of 64 bits in base64. */
export function encodeDigest ({ transactions, after: { version, root }, ...rest }: SentDigest): string {
  return encodeWithChecksum({
    ...rest,
    after: { version, root },
    transactions: transactions.map(({ root, touched, touchesAll }) => {
      return { root, touched: keysText(touched), touchesAll }
    })
  })
}

/** Parses a digest; undefined for anything else (law 13: what was stored elsewhere is checked before it is trusted). */
export function parseDigest (text: string): SentDigest | undefined {
  const value = decodeWithChecksum(text)
  if (!isObject(value)) return undefined
  const { source, askedAtMs, after, transactions: list, stamped, isVerified } = value
  if (
    typeof source !== 'string' || typeof askedAtMs !== 'number' || typeof isVerified !== 'boolean' ||
    !isObject(after) || typeof after['version'] !== 'bigint' || !isRoot(after['root']) ||
    !isListOf(list, isTransaction) || (stamped !== undefined && !isStamped(stamped))
  ) return undefined
  const { version, root } = after
  const transactions = list.map(({ root, touched, touchesAll }, index): TransactionDigest => ({
    version: version + BigInt(index) + 1n,
    root,
    hashes: undefined,
    touched: keysOf(touched),
    touchesAll
  }))
  const end = version + BigInt(transactions.length)
  if (stamped !== undefined && stamped.position.head.version !== end) return undefined
  return { source, askedAtMs, after: { version, root }, transactions, stamped, isVerified }
}

type SentTransaction = Pick<TransactionDigest, 'root' | 'touchesAll'> & { readonly touched: string }

function isTransaction (value: unknown): value is SentTransaction {
  if (!isObject(value) || !isRoot(value['root']) || typeof value['touched'] !== 'string') return false
  const { touched, touchesAll } = value
  return /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(touched) &&
    Buffer.byteLength(touched, 'base64') % 8 === 0 &&
    (touchesAll === undefined || touchAllReasons.some(reason => reason === touchesAll))
}

function isRoot (value: unknown): value is string | undefined {
  return value === undefined || (typeof value === 'string' && /^[0-9a-f]{64}$/.test(value))
}

function keysText (keys: readonly StateDigest[]): string {
  const bytes = Buffer.alloc(8 * keys.length)
  keys.forEach((key, index) => bytes.writeBigUInt64LE(key, 8 * index))
  return bytes.toString('base64')
}

function keysOf (text: string): StateDigest[] {
  const bytes = Buffer.from(text, 'base64')
  return Array.from({ length: bytes.length / 8 }, (_, index) => bytes.readBigUInt64LE(8 * index))
}
