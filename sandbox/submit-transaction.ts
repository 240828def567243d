import { type Address } from './address.js'
import { rawTransactionBytes, signedTransactionBytes } from './kinds/request-bytes.js'
import { makePendingTransaction } from './kinds/submitted-transactions.js'
import { makeCallPayload } from './kinds/payloads.js'
import { type Ledger } from './ledger.js'
import { invalidInput, Problem } from './problem.js'
import { readMediaType, readJsonObject } from './json-body.js'
import { requestedFormat, type RequestContext, successResponse } from './request-context.js'
import { makeResponse, type SandboxResponse } from './make-response.js'
import { type UserRequest } from './records.js'
import { readSignedTransaction, type SignedTransaction, signingMessage } from './signed-transaction.js'
import { faucet, gasOfSubmission } from './submissions.js'
import { simulatedRecord } from './transactions.js'
import { printHash } from './typed-hash.js'

const bcsType = 'application/x.aptos.signed_transaction+bcs'
const faucetGasPrice = 100n
// Far beyond the clock of any chain of the sandbox.
const faucetExpirationSecs = 4_102_444_800n

/** Accepts a signed transaction; the next block contains it. */
export function submitTransaction (context: RequestContext): SandboxResponse {
  requestedFormat(context, 'Submit transaction')
  const transaction = readBody(context)
  const { ledger, position } = context.snapshot
  requireValid(ledger, transaction)
  if (!transaction.hasValidSignature) throw invalidTransaction('INVALID_SIGNATURE', 1)
  admit(ledger, transaction)
  const body = JSON.stringify(makePendingTransaction(transaction))
  return makeResponse(202, 'json', body, { position, family: context.settings.family })
}

/** Executes a transaction without committing it; a valid signature is rejected, since it could be submitted. */
export function simulateTransaction (context: RequestContext): SandboxResponse {
  requestedFormat(context, 'Simulate transaction')
  const transaction = readBody(context)
  if (transaction.hasValidSignature) throw invalidInput('Simulated transactions must not have a valid signature')
  const { ledger } = context.snapshot
  requireValid(ledger, transaction)
  return successResponse(context, 'json', JSON.stringify([simulatedRecord(ledger, transaction)]))
}

/** Encodes a transaction in JSON for its signature: the message to sign, in hex. */
export function encodeSubmission (context: RequestContext): SandboxResponse {
  requestedFormat(context, 'Encode submission')
  const type = 'EncodeSubmissionRequest'
  readJsonObject(type, ['sender', 'payload'], context.contentType, context.body)
  try {
    const request = JSON.parse(context.body.toString()) as Omit<UserRequest, 'signature'>
    if (request.payload.type !== 'entry_function_payload') throw new RangeError('expected an entry_function_payload')
    const raw = rawTransactionBytes({ ...request, replay_protection_nonce: null }, context.snapshot.ledger.chainId)
    return successResponse(context, 'json', JSON.stringify(printHash(signingMessage(raw))))
  } catch (error) {
    throw invalidInput(`failed to parse "${type}": ${(error as Error).message}`)
  }
}

/** Submits a transfer of the faucet; returns its hash. */
export function fundAccount (ledger: Ledger, to: Address, amount: bigint): string {
  const pending = ledger.submissions.pendingSendsOf(faucet)
  const request: UserRequest = {
    sender: `0x${faucet}`,
    sequence_number: String(ledger.submissions.sendsOf(faucet) + pending),
    max_gas_amount: '2000',
    gas_unit_price: String(faucetGasPrice),
    expiration_timestamp_secs: String(faucetExpirationSecs),
    payload: makeCallPayload('0x1::aptos_account::transfer', [], [`0x${to}`, String(amount)]),
    signature: {
      public_key: printHash(Buffer.alloc(32)),
      signature: printHash(Buffer.alloc(64)),
      type: 'ed25519_signature'
    },
    replay_protection_nonce: null
  }
  const transaction = readSignedTransaction(signedTransactionBytes(request, ledger.chainId))
  admit(ledger, transaction)
  return transaction.hash
}

function readBody ({ contentType, body }: RequestContext): SignedTransaction {
  if (contentType === undefined || readMediaType(contentType) !== bcsType) {
    throw new Problem('framework', 'web_framework_error', `the sandbox accepts ${bcsType} only`, 415)
  }
  try {
    return readSignedTransaction(body)
  } catch (error) {
    throw invalidInput(`Failed to deserialize input into SignedTransaction: ${(error as Error).message}`)
  }
}

function requireValid (ledger: Ledger, transaction: SignedTransaction): void {
  const { sender, sequence, chainId, maxGas, gasPrice, expirationSecs, authenticationKey } = transaction
  if (chainId !== ledger.chainId) throw invalidTransaction('BAD_CHAIN_ID', 22)
  // No other account has a key that a client can know.
  if (authenticationKey !== undefined && authenticationKey !== sender) throw invalidTransaction('INVALID_AUTH_KEY', 2)
  if (expirationSecs <= ledger.head.timestampUsec / 1_000_000n) throw invalidTransaction('TRANSACTION_EXPIRED', 6)
  if (sequence < ledger.submissions.sendsOf(sender)) throw invalidTransaction('SEQUENCE_NUMBER_TOO_OLD', 3)
  if (maxGas < gasOfSubmission) throw invalidTransaction('MAX_GAS_UNITS_BELOW_MIN_TRANSACTION_GAS_UNITS', 13)
  if (ledger.submissions.spendable(sender) < maxGas * gasPrice) {
    throw invalidTransaction('INSUFFICIENT_BALANCE_FOR_TRANSACTION_FEE', 5)
  }
}

function admit (ledger: Ledger, transaction: SignedTransaction): void {
  switch (ledger.submissions.add(transaction)) {
    case 'added':
    case 'known':
      return
    case 'other_payload':
      throw new Problem(
        'ledger',
        'invalid_transaction_update',
        'Transaction already in mempool with a different payload'
      )
    case 'full':
      throw new Problem('ledger', 'mempool_is_full', 'Mempool is full')
  }
}

function invalidTransaction (name: string, vmCode: number): Problem {
  return new Problem('ledger', 'vm_error', `Invalid transaction: Type: Validation Code: ${name}`, 400, vmCode)
}
