import { type Address, addressOf, shortAddress } from '../address.js'
import { textBytes, u64Bytes } from '../bcs.js'
import { shortLivedTable, type TableChange, tableChangeOf, steppedResource } from '../short-lived.js'
import { depositAccount, eventsOfVersion, isDepositAt, type LedgerEvent } from '../events.js'
import {
  generatedResources,
  scheduledModules,
  type ScheduledValue,
  scheduledWrite,
  scheduleStep
} from '../scheduled.js'
import { resourceWrite, accountResources, coinStore, primaryStores } from '../resources.js'
import { type PendingTransaction, type UserRequest } from '../records.js'
import { itemKey, moduleKey } from '../state-key.js'
import { busyTable, drawItemKey, itemWrite } from '../generated-table-items.js'
import { trustedTypeTag } from '../type-tag.js'
import {
  feeStatement,
  generateHex,
  moduleEvent,
  recordsOf,
  transactionHash,
  type TransactionKind,
  type TransactionLocation,
  type UserKind
} from './outcome.js'
import {
  makeCallPayload,
  makeMoveToPayload,
  limitsRequests,
  makeEncryptedPayload,
  otherPayloadMakers,
  otherSignatureMakers,
  singleSenderMaker
} from './requests.js'
import { mayBeAnyUserKind, offsetInCycle, knownSendAt } from '../schedule.js'
import { DigestRandom } from '../digests.js'
import { maxU64 } from '../values.js'
import { type Write } from '../write.js'

/** Transaction that the seed makes an account send. */
export const userTransaction: TransactionKind = {
  outcomeOf (location) {
    const kind = userKindOf(location)
    const { failure } = kind
    if (failure === undefined) {
      const writes = [...ownWrites(location), ...kind.writes(location)]
      return { writes, moduleEvents: () => kind.events(location), gas: 6n, kind }
    }
    // A failed transaction changes only the item that represents the gas charge.
    const gas = 11n
    return { writes: [drawnItemWrite(location)], moduleEvents: () => [feeStatement(gas)], gas, failure, kind }
  },
  membersOf (executed) {
    const { location, location: { ledger, block, version }, outcome } = executed
    return {
      ...requestOf(location, outcome.kind ?? usualKind, eventsOfVersion(ledger, block, version)),
      events: recordsOf(executed),
      timestamp: String(block.timestampUsec),
      type: 'user_transaction'
    }
  }
}

/** Builds a user transaction while it is pending; its version may be above the head. */
export function makePendingTransaction (location: TransactionLocation): PendingTransaction {
  const request = requestOf(location, userKindOf(location), [])
  return {
    hash: transactionHash(location.ledger, location.version),
    ...request,
    ...request.payload.type === 'encrypted_transaction_payload' &&
      { payload: makeEncryptedPayload(location, { encrypted_state: 'encrypted' }) },
    type: 'pending_transaction'
  }
}

function requestOf (
  location: TransactionLocation,
  kind: UserKind,
  emitted: readonly LedgerEvent[]
): UserRequest {
  const { ledger, block, version } = location
  const known = knownSendAt(ledger, block, version)
  const [deposit] = emitted
  const drawn = new DigestRandom(ledger.seed, 'request', version).bytes(128).toString('hex')
  return {
    sender: shortAddress(known?.sender ?? drawn.slice(0, 64)),
    sequence_number: String(kind.hasNonce === true ? maxU64 : known?.sequence ?? version % 1_000n),
    max_gas_amount: '2000',
    gas_unit_price: '100',
    expiration_timestamp_secs: String(block.timestampUsec / 1_000_000n + 30n),
    payload: deposit === undefined
      ? kind.makePayload(location)
      : makeCallPayload('0x1::aptos_account::transfer', [], ['0xcafe', deposit.data.amount]),
    signature: kind.makeSignature?.(location) ??
      { public_key: `0x${drawn.slice(64, 128)}`, signature: `0x${drawn.slice(128)}`, type: 'ed25519_signature' },
    replay_protection_nonce: kind.hasNonce === true ? String(version * 7_919n) : null,
    ...kind.limits && { txn_limits_request: kind.limits }
  }
}

// The resources of the account that sends a transaction or receives coins by it.
function ownWrites ({ ledger, block, version }: TransactionLocation): Write[] {
  const known = knownSendAt(ledger, block, version)
  const own = [
    known && accountResources.get(known.sender),
    known && primaryStores.get(known.sender),
    isDepositAt(ledger, block, version) ? coinStore : undefined
  ]
  return own.flatMap(definition => definition === undefined ? [] : resourceWrite(definition, ledger, version))
}

const gameAddress = addressOf('42')
const u64 = trustedTypeTag('u64')
const stringTag = trustedTypeTag('0x1::string::String')

/** Modules and resources that user transactions write as the chain grows. */
export const scheduledValues: readonly ScheduledValue[] = [...scheduledModules, ...generatedResources(depositAccount)]

const usualKind: UserKind = {
  makePayload: makeMoveToPayload,
  writes: location => [drawnItemWrite(location)],
  events: () => []
}

const failures = [
  'Move abort in 0x42::game: ENOT_OWNER(0x50003): Only the owner may move a piece',
  'Out of gas',
  'Execution failed in 0x42::game::move_to at code offset 7',
  'EXECUTION_LIMIT_REACHED'
]

const differences: ReadonlyArray<Partial<UserKind>> = [
  ...otherSignatureMakers.map(makeSignature => ({ makeSignature })),
  ...otherPayloadMakers.map(makePayload => ({ makePayload })),
  ...failures.map(failure => ({ failure })),
  { hasNonce: true },
  {
    writes: ({ ledger, version }) => [
      itemWrite(ledger.seed, itemKey(busyTable, textBytes('alice')), version, { key: 'alice', keyType: stringTag })
    ]
  },
  { makePayload: makePublishPayload, writes: location => [moduleWrite(location, depositAccount, 'menu')] },
  {
    makePayload: makePublishPayload,
    writes: location => ['game', 'shop'].map(name => moduleWrite(location, gameAddress, name))
  },
  // Deletes a module that no listing contains, so listings stay the same.
  { writes: location => [drawnItemWrite(location), moduleWrite(location, depositAccount, 'seasonal')] },
  {
    events: (
      { version }
    ) => [moduleEvent('0x42::game::Moved', { by: '0xcafe', to: { x: String(version % 8n), y: '3' } })]
  },
  {
    events:
      () => [moduleEvent('0x42::shop::Sold<0x42::shop::Item>', { price: '340282366920938463463374607431768211455' })]
  },
  ...limitsRequests.map(limits => ({ limits })),
  { makePayload: makeDecryptedPayload },
  {
    makePayload: location => makeEncryptedPayload(location, { encrypted_state: 'failed_decryption' }),
    failure: 'MISCELLANEOUS_ERROR'
  },
  { makeSignature: singleSenderMaker('slh_dsa__sha2_128s', 'slh_dsa__sha2_128s') }
]

const otherKinds = differences.map((difference): UserKind => ({ ...usualKind, ...difference }))

/** Returns the kind of the user transaction at a location. */
function userKindOf (location: TransactionLocation): UserKind {
  const kind = kindByPlace(location)
  if (kind !== usualKind || !mayBeAnyUserKind(location.block, location.version)) return kind
  const due = dueWrites(location)
  return due.length === 0 ? kind : { ...kind, makePayload: makePublishPayload, writes: () => due }
}

/** Writes the table item that a transaction without another purpose changes. */
export function drawnItemWrite ({ ledger: { seed, startVersion }, version }: TransactionLocation): Write {
  return itemWrite(seed, drawItemKey(seed, Number(version - startVersion)), version)
}

function kindByPlace ({ ledger, block, version }: TransactionLocation): UserKind {
  if (!mayBeAnyUserKind(block, version)) return usualKind
  const place = offsetInCycle(ledger, version)
  // Odd places of the cycle are of the usual kind, or change what is short-lived; so are places beyond the list.
  if (place % 2 === 0) return otherKinds[place / 2] ?? usualKind
  const tableBooking = tableChangeOf(ledger, version)
  if (tableBooking !== undefined) {
    return {
      ...usualKind,
      makePayload: () => makeCallPayload('0x42::shop::book', [], ['1']),
      writes: location => [bookingWrite(location, tableBooking)]
    }
  }
  const stepped = steppedResource(ledger, version)
  return stepped === undefined
    ? usualKind
    : { ...usualKind, writes: () => [resourceWrite(stepped, ledger, version)] }
}

// Writes every scheduled value whose state has changed since the last transaction that could have written it.
function dueWrites (location: TransactionLocation): Write[] {
  const { ledger, version } = location
  const place = Number(version - ledger.startVersion)
  const before = Number(lastOfUsualKind(location) - ledger.startVersion)
  if (Math.floor(before / scheduleStep) === Math.floor(place / scheduleStep)) return []
  return scheduledValues.filter(({ stateAt }) => stateAt(before) !== stateAt(place)).map(value =>
    scheduledWrite(value, ledger, place)
  )
}

// Genesis writes every scheduled value, so it ends the search.
function lastOfUsualKind ({ ledger, block, version }: TransactionLocation): bigint {
  for (let at = version - 1n, within = block; at > ledger.startVersion; at--) {
    if (at < within.firstVersion) within = ledger.block(within.height - 1n)
    const location = { ledger, block: within, version: at }
    if (mayBeAnyUserKind(within, at) && kindByPlace(location) === usualKind) return at
  }
  return ledger.startVersion
}

function bookingWrite ({ ledger, version }: TransactionLocation, { key, action, isDecoded }: TableChange): Write {
  const decoded = isDecoded ? { key: String(key), keyType: u64 } : undefined
  const write = itemWrite(ledger.seed, itemKey(shortLivedTable, u64Bytes(key)), version, decoded)
  return action === 'write' ? write : { ...write, value: () => undefined }
}

// Writes a module as it is already, or deletes one that does not exist.
function moduleWrite ({ ledger, block, version }: TransactionLocation, address: Address, name: string): Write {
  const key = moduleKey(address, name)
  const module = scheduledModules.find(scheduled => scheduled.key.equals(key))
  if (module === undefined) return { key, value: () => undefined }
  return scheduledWrite(module, ledger, Number(lastOfUsualKind({ ledger, block, version }) - ledger.startVersion))
}

function makeDecryptedPayload (location: TransactionLocation) {
  return makeEncryptedPayload(location, {
    decrypted_payload: makeMoveToPayload(location),
    decryption_nonce: generateHex(location, 'decryption', 8),
    encrypted_state: 'decrypted'
  })
}

function makePublishPayload (location: TransactionLocation) {
  return makeCallPayload('0x1::code::publish_package_txn', [], [generateHex(location, 'metadata', 40), [
    generateHex(location, 'code', 60)
  ]])
}
