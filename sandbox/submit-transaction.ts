import { createPublicKey, hash, verify } from 'node:crypto'
import { type Address, shortAddress } from './address.js'
import { BcsReader, InvalidBcsError } from './bcs.js'
import { chainAsset, nativeCoinType } from './resources.js'
import { type EntryFunctionPayload, type TransactionSignature, type UserRequest } from './records.js'
import { type SubmittedTransaction, faucet, gasOfSubmission } from './submissions.js'
import { printTypeTag, readIdentifierBytes, readTypeTagBytes } from './type-tag.js'
import { hasherOf, printHash } from './digests.js'
import { signedTransactionBytes } from './kinds/bytes.js'
import { pendingSubmission, simulatedRecord } from './transactions.js'
import { makeCallPayload } from './kinds/requests.js'
import { type Ledger } from './ledger.js'
import { invalidInput, Problem } from './problem.js'
import { readMediaType } from './params.js'
import { requestedFormat, type RequestContext, successResponse } from './request-context.js'
import { makeResponse, type SandboxResponse } from './make-response.js'

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
  const body = JSON.stringify(pendingSubmission(transaction))
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

/** Parsed transaction with what validation needs. */
interface SignedTransaction extends SubmittedTransaction {
  readonly chainId: number
  readonly maxGas: bigint
  /** Key that its sender's address must be the hash of; undefined for a transaction without a signature. */
  readonly authenticationKey: Address | undefined
  readonly hasValidSignature: boolean
}

interface Authenticator {
  readonly signature: TransactionSignature
  readonly key: Buffer | undefined
  readonly signed: Buffer
  readonly authenticationKey: Address | undefined
}

const hashTransaction = hasherOf('Transaction')
const ed25519KeyBytes = 32
const ed25519SignatureBytes = 64
const entryFunctionVariant = 2

/** Returns the message that the sender of a transaction signs. */
export function signingMessage (raw: Buffer): Buffer {
  return Buffer.concat([hash('sha3-256', 'APTOS::RawTransaction', 'buffer'), raw])
}

/** Parses a signed transaction in BCS: an entry function, signed by one Ed25519 key or not at all. */
function readSignedTransaction (bytes: Buffer): SignedTransaction {
  const reader = new BcsReader(bytes)
  const sender = reader.readBytes(32).toString('hex')
  const sequence = reader.readInteger(8)
  if (reader.readByte() !== entryFunctionVariant) throw new InvalidBcsError('the sandbox executes entry functions only')
  const call = readCall(reader)
  const [maxGas, gasPrice, expirationSecs] = [reader.readInteger(8), reader.readInteger(8), reader.readInteger(8)]
  const chainId = reader.readByte()
  const raw = bytes.subarray(0, reader.offset)
  const { signature, key, signed, authenticationKey } = readAuthenticator(reader)
  reader.requireEnd()
  return {
    hash: printHash(hashTransaction(Buffer.from([0]), bytes)),
    bytes,
    sender,
    sequence,
    expirationSecs,
    gasPrice,
    maxGas,
    chainId,
    authenticationKey,
    hasValidSignature: key !== undefined && isSigned(signingMessage(raw), key, signed),
    transfer: transferOf(call),
    request: {
      sender: shortAddress(sender),
      sequence_number: String(sequence),
      max_gas_amount: String(maxGas),
      gas_unit_price: String(gasPrice),
      expiration_timestamp_secs: String(expirationSecs),
      payload: payloadOf(call),
      signature,
      replay_protection_nonce: null
    }
  }
}

interface Call {
  readonly path: string
  readonly types: readonly string[]
  readonly args: readonly Buffer[]
}

function readCall (reader: BcsReader): Call {
  const address = shortAddress(reader.readBytes(32).toString('hex'))
  const [module, name] = [readIdentifierBytes(reader), readIdentifierBytes(reader)]
  const types = reader.readItems(() => printTypeTag(readTypeTagBytes(reader)))
  return { path: `${address}::${module}::${name}`, types, args: reader.readItems(() => reader.readSizedBytes()) }
}

/** Names of the functions that transfer the chain's own asset, with their type arguments. */
const transfers: ReadonlyMap<string, readonly string[]> = new Map([
  ['0x1::aptos_account::transfer', []],
  ['0x1::aptos_account::transfer_coins', [nativeCoinType]],
  ['0x1::coin::transfer', [nativeCoinType]],
  ['0x1::primary_fungible_store::transfer', ['0x1::fungible_asset::Metadata']]
])

function transferOf ({ path, types, args }: Call): SubmittedTransaction['transfer'] {
  if (transfers.get(path)?.join() !== types.join()) return undefined
  const [to, amount, ...others] = path.includes('fungible') ? args.slice(1) : args
  const isOwnAsset = !path.includes('fungible') || args[0]?.toString('hex') === chainAsset
  if (!isOwnAsset || to?.length !== 32 || amount?.length !== 8 || others.length > 0) return undefined
  return { to: to.toString('hex'), amount: amount.readBigUInt64LE() }
}

// Arguments of other functions have types that the sandbox does not know, so they are printed as bytes.
function payloadOf (call: Call): EntryFunctionPayload {
  const transfer = transferOf(call)
  const known = transfer && [shortAddress(transfer.to), String(transfer.amount)]
  const asset = call.path.includes('fungible') ? [{ inner: shortAddress(chainAsset) }] : []
  return {
    function: call.path,
    type_arguments: [...call.types],
    arguments: known === undefined ? call.args.map(printHash) : [...asset, ...known],
    type: 'entry_function_payload'
  }
}

// Authenticators: 0 one Ed25519 key, 4 an account, with 0 such a key, 2 a key of any type, or 4 no signature.
function readAuthenticator (reader: BcsReader): Authenticator {
  const variant = reader.readByte()
  const inner = variant === 4 ? reader.readByte() : variant
  if (variant === 4 && inner === 4) {
    const signature = { type: 'single_sender' } as const
    return { signature, key: undefined, signed: Buffer.alloc(0), authenticationKey: undefined }
  }
  const isSingleKey = variant === 4 && inner === 2
  if (inner !== 0 && !isSingleKey) throw unsupportedSignature()
  if (isSingleKey && reader.readByte() !== 0) throw unsupportedSignature()
  const key = reader.readSizedBytes()
  if (isSingleKey && reader.readByte() !== 0) throw unsupportedSignature()
  const signed = reader.readSizedBytes()
  if (key.length !== ed25519KeyBytes || signed.length !== ed25519SignatureBytes) throw unsupportedSignature()
  const [publicKey, signature] = [printHash(key), printHash(signed)]
  return {
    key,
    signed,
    authenticationKey: isSingleKey
      ? hash('sha3-256', Buffer.concat([Buffer.from([0, key.length]), key, Buffer.from([2])]), 'hex')
      : hash('sha3-256', Buffer.concat([key, Buffer.from([0])]), 'hex'),
    signature: isSingleKey
      ? {
        public_key: { value: publicKey, type: 'ed25519' },
        signature: { value: signature, type: 'ed25519' },
        type: 'single_sender'
      }
      : { public_key: publicKey, signature, type: 'ed25519_signature' }
  }
}

function unsupportedSignature (): InvalidBcsError {
  return new InvalidBcsError('the sandbox accepts signatures of one Ed25519 key only')
}

function isSigned (message: Buffer, key: Buffer, signature: Buffer): boolean {
  const publicKey = createPublicKey({
    key: { kty: 'OKP', crv: 'Ed25519', x: key.toString('base64url') },
    format: 'jwk'
  })
  return verify(null, message, publicKey, signature)
}
