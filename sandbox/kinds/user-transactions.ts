import { shortAddress } from '../address.js'
import { accountResources } from '../account-resource.js'
import { coinStore, primaryStores } from '../native-coin-resources.js'
import { manyDigestsHex } from '../seeded-digest.js'
import { eventsOfVersion, isDepositAt } from '../ledger-events.js'
import { maxU64 } from '../integer.js'
import { resourceWrite } from '../resource-definition.js'
import { type PendingTransaction, type UserRequest, type UserTransaction } from '../records.js'
import { knownSendAt } from '../sender-schedule.js'
import { type LedgerEvent } from '../account-event-stream.js'
import { type Write } from '../write.js'
import { committedMembersOf, type Executed, transactionHash } from './executed.js'
import { feeStatement } from './module-events.js'
import { type Outcome } from './outcome.js'
import { makeCallPayload } from './payloads.js'
import { type TransactionLocation } from './transaction-location.js'
import { drawnItemWrite, type UserTransactionKind, userTransactionKindOf } from './user-transaction-kinds.js'

/** Returns what a user transaction did. */
export function userOutcome (location: TransactionLocation): Outcome {
  const kind = userTransactionKindOf(location)
  const { failure } = kind
  if (failure === undefined) {
    const writes = [...ownWrites(location), ...kind.writes(location)]
    return { writes, moduleEvents: () => kind.events(location), gas: 6n, kind }
  }
  // A failed transaction changes only the item that represents the gas charge.
  const gas = 11n
  return { writes: [drawnItemWrite(location)], moduleEvents: () => [feeStatement(gas)], gas, failure, kind }
}

/** Builds a committed transaction of an account. */
export function makeUserTransaction (executed: Executed, kind: UserTransactionKind): UserTransaction {
  const { location, events } = executed
  return {
    ...committedMembersOf(executed),
    ...requestOf(location, kind, eventsOfVersion(location.ledger, location.block, location.version)),
    events: events.map(({ record }) => record),
    timestamp: String(location.block.timestampUsec),
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
  const [drawn, key, half, otherHalf] = manyDigestsHex(4, ledger.seed, 'request', version)
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
