import { type Ledger } from '../../../sandbox/ledger.js'
import { transactionHash } from '../../../sandbox/transactions.js'
import { pin, splitPinnedCursor } from './pinned-cursors.js'
import { states, streams, tableKeys, valueTypes, resolveVersion, views, type AbstractRead } from './abstract-read.js'

/** A read with its versions and cursors resolved. */
export type ResolvedRead =
  | {
    readonly kind: 'table',
    readonly handle: string,
    readonly keyType: string,
    readonly spellings: readonly string[],
    readonly valueType: string,
    readonly version: bigint | undefined
  }
  | {
    readonly kind: 'modules',
    readonly account: string,
    readonly version: bigint | undefined,
    readonly limit: number | undefined,
    readonly start: string | undefined
  }
  | {
    readonly kind: 'events',
    readonly account: string,
    readonly handle: string,
    readonly field: string,
    readonly start: bigint | undefined,
    readonly limit: number | undefined
  }
  | { readonly kind: 'block', readonly version: bigint, readonly transactions: 'true' | 'false' | undefined }
  | { readonly kind: 'state', readonly account: string, readonly of: number, readonly version: bigint | undefined }
  | { readonly kind: 'view', readonly of: number, readonly version: bigint | undefined }
  | { readonly kind: 'height', readonly height: bigint, readonly transactions: 'true' | 'false' | undefined }
  | { readonly kind: 'transaction', readonly version: bigint, readonly hash: string | undefined }
  | { readonly kind: 'list', readonly start: bigint | undefined, readonly limit: number | undefined }
  | { readonly kind: 'path', readonly target: string }

/** Progress of a run. */
export interface FuzzProgress {
  readonly ledger: Ledger
  /** Cursors of earlier responses. */
  readonly cursors: readonly string[]
  /** Heads at earlier steps, the latest last. */
  readonly heads: readonly bigint[]
}

const noCursor = '00'

/** Resolves versions and cursors of a read. */
export function resolveRead (wish: AbstractRead, { ledger, cursors }: FuzzProgress): ResolvedRead {
  switch (wish.kind) {
    case 'table': {
      const { type, spellings, busy } = tableKeys[wish.key] ?? { type: 'u64', spellings: ['"7"'], busy: '23' }
      return {
        kind: 'table',
        handle: wish.handle === 'busy' ? busy : wish.handle,
        keyType: type,
        spellings,
        valueType: valueTypes[wish.value] ?? 'u64',
        version: wish.version && resolveVersion(wish.version, ledger)
      }
    }
    case 'modules': {
      const start = wish.cursor === undefined
        ? undefined
        : cursors[cursors.length - 1 - wish.cursor % Math.max(1, cursors.length)] ?? noCursor
      return {
        kind: 'modules',
        account: wish.account,
        version: wish.version && resolveVersion(wish.version, ledger),
        limit: wish.limit,
        start
      }
    }
    case 'listing': {
      const cursor = wish.cursor === undefined ? undefined : cursors[cursors.length - 1 - wish.cursor]
      const start = cursor !== undefined && wish.forged !== undefined
        ? pin(resolveVersion(wish.forged, ledger), splitPinnedCursor(cursor)?.own ?? cursor)
        : cursor
      return { kind: 'modules', account: wish.account, version: undefined, limit: wish.limit, start }
    }
    case 'events': {
      const [account, handle, field] = streams[wish.stream] ?? streams[0]
      const end = BigInt(
        wish.stream === 1 || wish.stream > 2
          ? Math.floor(ledger.height / 3)
          : wish.stream === 2
          ? Math.floor(ledger.height / 200) + 1
          : ledger.height + 1
      )
      const start = wish.start && (wish.start.from === 'end' ? end : 0n) + BigInt(wish.start.by)
      return {
        kind: 'events',
        account,
        handle,
        field,
        start: start !== undefined && start < 0n ? 0n : start,
        limit: wish.limit
      }
    }
    case 'block':
      return { kind: 'block', version: resolveVersion(wish.version, ledger), transactions: wish.transactions }
    case 'state':
    case 'view':
      return { ...wish, version: wish.version && resolveVersion(wish.version, ledger) }
    case 'height': {
      const version = resolveVersion(wish.version, ledger)
      const isThere = version >= ledger.startVersion && version <= ledger.head.version
      return { ...wish, height: isThere ? BigInt(ledger.blockOf(version).height) : version }
    }
    case 'transaction': {
      const version = resolveVersion(wish.version, ledger)
      return { kind: 'transaction', version, hash: wish.isByHash ? transactionHash(ledger, version) : undefined }
    }
    case 'list':
      return { ...wish, start: wish.start && resolveVersion(wish.start, ledger) }
    case 'path':
      return wish
  }
}

/** Returns a read with one difference, which a cache must not confuse. */
export function neighbouringResolvedRead (plain: ResolvedRead, which: number, { heads }: FuzzProgress): ResolvedRead {
  const by = [1, -1, 2, -2][which % 4] ?? 1
  const moved = (number: bigint): bigint => number + BigInt(by) < 0n ? 0n : number + BigInt(by)
  // Picks the version of a recent latest read, or its neighbour.
  const lately = (heads[heads.length - 1 - Math.floor(which / 3) % 2] ?? 0n) + BigInt([0, 1, -1][which % 3] ?? 0)
  const pinned = plain.kind === 'modules' && plain.start !== undefined ? splitPinnedCursor(plain.start) : undefined
  switch (plain.kind) {
    case 'table':
      if (which < 20) return { ...plain, version: lately }
      if (which < 30) return { ...plain, version: undefined }
      if (which < 35) return { ...plain, valueType: which % 2 === 0 ? '0x42::game::Cell' : '0x42::game::cell' }
      if (which < 41 && plain.version !== undefined) return { ...plain, version: moved(plain.version) }
      if (which < 48) return { ...plain, valueType: valueTypes[which % valueTypes.length] ?? 'u64' }
      return { ...plain, handle: plain.handle === '42' ? '5eed' : '42' }
    case 'modules':
      if (pinned !== undefined && which % 2 === 0) return { ...plain, start: pin(moved(pinned.version), pinned.own) }
      if (which > 45) return { ...plain, version: undefined }
      if (which > 40) return { ...plain, version: lately }
      if (which % 3 === 0 && plain.version !== undefined) return { ...plain, version: moved(plain.version) }
      if (which % 3 === 1) {
        return { ...plain, limit: plain.limit === undefined ? 2 : which % 2 === 0 ? undefined : plain.limit + 1 }
      }
      return which % 2 === 0
        ? { ...plain, start: undefined }
        : { ...plain, account: plain.account === 'cafe' ? '42' : 'cafe' }
    case 'events':
      if (which % 3 === 0 && plain.start !== undefined) return { ...plain, start: moved(plain.start) }
      if (which % 3 === 1) {
        return {
          ...plain,
          limit: plain.limit === undefined ? 9 : which % 2 === 0 ? undefined : Math.max(1, plain.limit + by)
        }
      }
      return which % 2 === 0
        ? { ...plain, start: undefined }
        : { ...plain, handle: plain.handle.replace('aptos_coin::AptosCoin', 'aptos_coin::aptosCoin') }
    case 'block':
      return which % 2 === 0
        ? { ...plain, version: moved(plain.version) }
        : { ...plain, transactions: plain.transactions === 'true' ? undefined : 'true' }
    case 'state':
      return which % 3 === 0
        ? { ...plain, version: lately }
        : which % 3 === 1 && plain.version !== undefined
        ? { ...plain, version: moved(plain.version) }
        : { ...plain, of: which % states.length }
    case 'view':
      return which % 3 === 0
        ? { ...plain, version: lately }
        : which % 3 === 1 && plain.version !== undefined
        ? { ...plain, version: moved(plain.version) }
        : { ...plain, of: which % views.length }
    case 'height':
      return which % 2 === 0
        ? { ...plain, height: moved(plain.height) }
        : { ...plain, transactions: plain.transactions === 'true' ? undefined : 'true' }
    case 'transaction':
      return { ...plain, version: moved(plain.version), hash: undefined }
    case 'list':
      return which % 2 === 0 && plain.start !== undefined
        ? { ...plain, start: moved(plain.start) }
        : { ...plain, limit: plain.limit === undefined ? 2 : undefined }
    case 'path':
      return plain
  }
}
