import { shortAddress } from '../address.js'
import { primaryStore, chainAsset } from '../coin-resources.js'
import { depositor } from '../deposits.js'
import { digestsHex } from '../digest.js'
import { eventRecord, eventsOfVersion } from '../events.js'
import { maxU64 } from '../integer.js'
import { type Change } from '../schema/change.js'
import { type PendingTransaction, type UserRequest, type UserTransaction } from '../schema/transaction-user.js'
import { sentAt } from '../senders.js'
import { type LedgerEvent } from '../stream.js'
import { busyItem, coinTag, resourceChange, tagOf } from './changes.js'
import { committedPart, transactionHash } from './committed.js'
import { feeStatement } from './module-events.js'
import { call } from './payloads.js'
import { type Slot } from './slot.js'
import { type UserKind, userKindOf } from './user-kinds.js'

const accountTag = tagOf('account', 'Account')
const storeTag = tagOf('fungible_asset', 'FungibleStore')

/** A transaction that somebody has sent, as it is once the chain has taken it. */
export function userTransaction (slot: Slot): UserTransaction {
  const { ledger, block, version } = slot
  const kind = userKindOf(slot)
  const emitted = eventsOfVersion(ledger, block, version)
  const gas = kind.failure === undefined ? 6n : 11n
  const told = kind.failure === undefined ? kind.events(slot) : [feeStatement(gas)]
  return {
    ...committedPart(slot, changesOf(slot, kind, emitted), gas, kind.failure),
    ...requestOf(slot, kind, emitted),
    events: [...emitted.map(eventRecord), ...told],
    timestamp: String(block.timestampUsec),
    type: 'user_transaction'
  }
}

/** The same transaction while it waits: the version must be one that somebody sends, and may be yet to come. */
export function pendingTransaction (slot: Slot): PendingTransaction {
  return {
    hash: transactionHash(slot.ledger, slot.version),
    ...requestOf(slot, userKindOf(slot), []),
    type: 'pending_transaction'
  }
}

function requestOf (slot: Slot, kind: UserKind, emitted: readonly LedgerEvent[]): UserRequest {
  const { ledger, block, version } = slot
  const known = sentAt(ledger, block, version)
  const [deposit] = emitted
  const [drawn, key, half, otherHalf] = digestsHex(4, ledger.seed, 'request', version)
  return {
    sender: shortAddress(known?.sender ?? String(drawn).slice(2)),
    sequence_number: String(kind.hasNonce === true ? maxU64 : known?.sequence ?? version % 1_000n),
    max_gas_amount: '2000',
    gas_unit_price: '100',
    expiration_timestamp_secs: String(block.timestampUsec / 1_000_000n + 30n),
    payload: deposit === undefined
      ? kind.task(slot)
      : call('0x1::aptos_account::transfer', [], ['0xcafe', deposit.data.amount]),
    signature: kind.signing?.(slot) ??
      { public_key: String(key), signature: `${half}${otherHalf?.slice(2)}`, type: 'ed25519_signature' },
    replay_protection_nonce: kind.hasNonce === true ? String(version * 7_919n) : null
  }
}

function changesOf (slot: Slot, kind: UserKind, emitted: readonly LedgerEvent[]): Change[] {
  // What failed has left what it cost, in an item that is always there.
  if (kind.failure !== undefined) return busyItem(slot, 100)
  const known = sentAt(slot.ledger, slot.block, slot.version)
  return [
    ...known === undefined
      ? []
      : [
        resourceChange(slot, known.sender, accountTag),
        resourceChange(slot, primaryStore(known.sender, chainAsset), storeTag)
      ],
    ...emitted.length === 0 ? [] : [resourceChange(slot, depositor, coinTag)],
    ...kind.changes(slot)
  ]
}
