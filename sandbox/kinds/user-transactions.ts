import { shortAddress } from '../address.js'
import { primaryStore, chainAsset } from '../native-coin-resources.js'
import { depositAccount } from '../deposit-events.js'
import { digestsHex } from '../digest.js'
import { eventRecord, eventsOfVersion } from '../ledger-events.js'
import { maxU64 } from '../integer.js'
import { type WriteSetChange } from '../schema/change.js'
import { type PendingTransaction, type UserRequest, type UserTransaction } from '../schema/transaction-user.js'
import { knownSendAt } from '../known-senders.js'
import { type LedgerEvent } from '../event-stream.js'
import { busyItemChange, coinTag, resourceChange, tagOf } from './write-set-changes.js'
import { committedMembersOf, transactionHash } from './committed.js'
import { feeStatement } from './module-events.js'
import { makeCallPayload } from './payloads.js'
import { type TransactionLocation } from './transaction-location.js'
import { type UserTransactionKind, userTransactionKindOf } from './user-transaction-kinds.js'

const accountTag = tagOf('account', 'Account')
const storeTag = tagOf('fungible_asset', 'FungibleStore')

/** Builds a committed transaction of an account. */
export function makeUserTransaction (location: TransactionLocation): UserTransaction {
  const { ledger, block, version } = location
  const kind = userTransactionKindOf(location)
  const emitted = eventsOfVersion(ledger, block, version)
  const gas = kind.failure === undefined ? 6n : 11n
  const moduleEvents = kind.failure === undefined ? kind.events(location) : [feeStatement(gas)]
  return {
    ...committedMembersOf(location, changesOf(location, kind, emitted), gas, kind.failure),
    ...requestOf(location, kind, emitted),
    events: [...emitted.map(eventRecord), ...moduleEvents],
    timestamp: String(block.timestampUsec),
    type: 'user_transaction'
  }
}

/** Builds a user transaction while it is pending; its version may be above the head. */
export function makePendingTransaction (location: TransactionLocation): PendingTransaction {
  return {
    hash: transactionHash(location.ledger, location.version),
    ...requestOf(location, userTransactionKindOf(location), []),
    type: 'pending_transaction'
  }
}

function requestOf (
  location: TransactionLocation,
  kind: UserTransactionKind,
  emitted: readonly LedgerEvent[]
): UserRequest {
  const { ledger, block, version } = location
  const known = knownSendAt(ledger, block, version)
  const [deposit] = emitted
  const [drawn, key, half, otherHalf] = digestsHex(4, ledger.seed, 'request', version)
  return {
    sender: shortAddress(known?.sender ?? String(drawn).slice(2)),
    sequence_number: String(kind.hasNonce === true ? maxU64 : known?.sequence ?? version % 1_000n),
    max_gas_amount: '2000',
    gas_unit_price: '100',
    expiration_timestamp_secs: String(block.timestampUsec / 1_000_000n + 30n),
    payload: deposit === undefined
      ? kind.makePayload(location)
      : makeCallPayload('0x1::aptos_account::transfer', [], ['0xcafe', deposit.data.amount]),
    signature: kind.makeSignature?.(location) ??
      { public_key: String(key), signature: `${half}${otherHalf?.slice(2)}`, type: 'ed25519_signature' },
    replay_protection_nonce: kind.hasNonce === true ? String(version * 7_919n) : null
  }
}

function changesOf (
  location: TransactionLocation,
  kind: UserTransactionKind,
  emitted: readonly LedgerEvent[]
): WriteSetChange[] {
  // A failed transaction changes only the item that represents the gas charge; keys below 100 always exist.
  if (kind.failure !== undefined) return busyItemChange(location, 100)
  const known = knownSendAt(location.ledger, location.block, location.version)
  return [
    ...known === undefined
      ? []
      : [
        resourceChange(location, known.sender, accountTag),
        resourceChange(location, primaryStore(known.sender, chainAsset), storeTag)
      ],
    ...emitted.length === 0 ? [] : [resourceChange(location, depositAccount, coinTag)],
    ...kind.changes(location)
  ]
}
