import { lengthBytes, u64Bytes, sequenceBytes } from './bcs.js'
import { type Block, type Ledger, retainedBlocksBelowWindow } from './ledger.js'
import {
  readFlagQuery,
  readOnceDecodedU64Param,
  readAddressParam,
  readHashParam,
  readLimitQuery,
  readU64Param,
  readU64Query
} from './params.js'
import { blockNotFound, blockPruned, invalidInput, transactionNotFound, versionPruned } from './problem.js'
import {
  requestedFormat,
  pathParam,
  type RequestContext,
  requireVersion,
  successResponse,
  type LedgerSnapshot,
  requireAccount,
  pageSize
} from './request-context.js'
import { printTransaction, transactionBytes, pendingSubmission, pendingTransactions } from './transactions.js'
import { signedTransactionBytes } from './kinds/bytes.js'
import { transactionHash } from './kinds/outcome.js'
import { type SandboxResponse } from './make-response.js'
import { joinItems } from './json.js'
import { nextSequenceAt, versionOfSend } from './schedule.js'
import { pageItems, type TailFault } from './transaction-page-fault.js'
import { type PendingTransaction } from './records.js'

/** Reads the transaction of a version. */
export function readTransactionByVersion (context: RequestContext): SandboxResponse {
  const version = readU64Param('txn_version', pathParam(context, 0))
  const format = requestedFormat(context, 'Get transactions by version')
  const { position } = context.snapshot
  if (version > position.version) throw transactionNotFound(`Ledger version(${version})`)
  if (version < position.oldestVersion) throw versionPruned(version)
  return successResponse(
    context,
    format,
    format === 'json' ? transactionJson(context.snapshot, version) : committedBytes(context.snapshot, version)
  )
}

/** Reads a committed or pending transaction by its hash. */
export function readTransactionByHash (context: RequestContext): SandboxResponse {
  const hash = readHashParam('txn_hash', pathParam(context, 0))
  const format = requestedFormat(context, 'Get transactions by hash')
  const found = findTransactionByHash(context.snapshot, hash)
  if (found === undefined) throw transactionNotFound(`Transaction hash(${hash})`)
  if (typeof found === 'bigint') {
    return successResponse(
      context,
      format,
      format === 'json' ? transactionJson(context.snapshot, found) : committedBytes(context.snapshot, found)
    )
  }
  return successResponse(
    context,
    format,
    format === 'json'
      ? JSON.stringify(found)
      : Buffer.concat([Buffer.from([1]), signedTransactionBytes(found, context.snapshot.ledger.chainId)])
  )
}

/** True if the transaction of a hash is pending; false for a malformed hash. */
export function isPending (snapshot: LedgerSnapshot, segment: string): boolean {
  try {
    return typeof findTransactionByHash(snapshot, readHashParam('txn_hash', segment)) === 'object'
  } catch {
    return false
  }
}

/** Lists transactions from a version on; without `start`, the newest ones. */
export function readTransactions (context: RequestContext): SandboxResponse {
  const requestedStart = readU64Query(context.query, 'start')
  const limit = readLimitQuery(context.query)
  const format = requestedFormat(context, 'Get transactions')
  const { transactionsDefault, transactionsMax } = context.settings
  const size = BigInt(pageSize(limit, transactionsDefault, transactionsMax))
  const { version: head, oldestVersion } = context.snapshot.position
  const start = requestedStart ?? (head < size ? 0n : head - size + 1n)
  if (start > head) {
    throw invalidInput(`Given start value (${start}) is higher than the current ledger version, it must be < ${head}`)
  }
  if (start < oldestVersion) throw versionPruned(start)
  const versions = versionsFrom(start, head < start + size ? head : start + size - 1n)
  return transactionsResponse(context, format, versions, context.snapshot.tailFault)
}

/** Lists the transactions of an account from a sequence number on; without `start`, the newest ones. */
export function readAccountTransactions (context: RequestContext): SandboxResponse {
  const address = readAddressParam('address', pathParam(context, 0))
  const requestedStart = readU64Query(context.query, 'start')
  const limit = readLimitQuery(context.query)
  const format = requestedFormat(context, 'Get account transactions')
  const { snapshot: { ledger, position }, settings } = context
  requireAccount(context, address, position.version)
  const size = BigInt(pageSize(limit, settings.transactionsDefault, settings.transactionsMax))
  const count = nextSequenceAt(ledger, address, position.version)
  const start = requestedStart ?? (count < size ? 0n : count - size)
  const sequences = versionsFrom(start, (count < start + size ? count : start + size) - 1n)
  // Omits pruned transactions without notice.
  return transactionsResponse(
    context,
    format,
    sequences.map(sequence => versionOfSend(ledger, address, sequence)).filter(version =>
      version >= position.oldestVersion
    )
  )
}

function transactionsResponse (
  context: RequestContext,
  format: 'json' | 'bcs',
  versions: readonly bigint[],
  fault?: TailFault
): SandboxResponse {
  const items = pageItems(context.snapshot.ledger, versions, format, fault)
  return successResponse(
    context,
    format,
    format === 'json' ? joinItems(items) : sequenceBytes(items)
  )
}

function versionsFrom (first: bigint, last: bigint): bigint[] {
  return last < first ? [] : Array.from({ length: Number(last - first) + 1 }, (_, index) => first + BigInt(index))
}

function transactionJson ({ ledger }: LedgerSnapshot, version: bigint): Buffer {
  return printTransaction(ledger, ledger.blockOf(version), version)
}

// A single transaction in BCS starts with a variant byte: 0 committed, 1 pending.
function committedBytes ({ ledger }: LedgerSnapshot, version: bigint): Buffer {
  return Buffer.concat([Buffer.from([0]), transactionBytes(ledger, version)])
}

/** Finds a transaction by hash: the version of a committed one, or the pending one; undefined if unknown or pruned. */
function findTransactionByHash (
  { ledger, position }: LedgerSnapshot,
  hash: string
): bigint | PendingTransaction | undefined {
  const submission = ledger.submissions.find(hash)
  if (submission !== undefined && (submission.version === undefined || submission.version > position.version)) {
    return pendingSubmission(submission.transaction)
  }
  const version = findVersion(ledger, hash, position.oldestVersion)
  if (version === undefined || version > position.version) {
    return pendingTransactions(ledger, position.blockHeight).find(pending => pending.hash === hash)
  }
  return version < position.oldestVersion ? undefined : version
}

// Indexes each version that is not pruned once; the next look-up continues from there.
function findVersion (ledger: Ledger, hash: string, oldest: bigint): bigint | undefined {
  const { versionsByHash, head } = ledger
  const dropped =
    ledger.block(Math.max(0, ledger.height - ledger.windowBlocks - retainedBlocksBelowWindow)).firstVersion
  for (const [earliest, version] of versionsByHash.versions) {
    if (version >= dropped) break
    versionsByHash.versions.delete(earliest)
  }
  if (versionsByHash.next < oldest) versionsByHash.next = oldest
  for (; versionsByHash.next <= head.version; versionsByHash.next++) {
    versionsByHash.versions.set(transactionHash(ledger, versionsByHash.next), versionsByHash.next)
  }
  return versionsByHash.versions.get(hash)
}

/** Reads the block that contains a version. */
export function readBlockByVersion (context: RequestContext): SandboxResponse {
  const requestedVersion = readOnceDecodedU64Param('version', pathParam(context, 0))
  return readBlock(
    context,
    'Get block by version',
    ({ ledger }) => ledger.blockOf(requireVersion(context.snapshot, requestedVersion))
  )
}

/** Reads the block at a height. */
export function readBlockByHeight (context: RequestContext): SandboxResponse {
  const requestedHeight = readOnceDecodedU64Param('block_height', pathParam(context, 0))
  return readBlock(context, 'Get block by height', ({ ledger, position }) => {
    if (requestedHeight > position.blockHeight) throw blockNotFound(requestedHeight)
    if (requestedHeight < position.oldestBlockHeight) throw blockPruned(requestedHeight)
    return ledger.block(requestedHeight)
  })
}

function readBlock (
  context: RequestContext,
  operation: string,
  find: (snapshot: LedgerSnapshot) => Block
): SandboxResponse {
  const withTransactions = readFlagQuery(context.query, 'with_transactions')
  const format = requestedFormat(context, operation)
  const { ledger } = context.snapshot
  const block = find(context.snapshot)
  const versions = withTransactions ? versionsOf(block, context.settings.blockTransactionsMax) : undefined
  return successResponse(
    context,
    format,
    format === 'json' ? blockJson(ledger, block, versions) : blockBytes(ledger, block, versions)
  )
}

// Truncates without notice, as nodes do: only the version range of the block shows that transactions are missing.
function versionsOf (block: Block, maxTransactions: number): bigint[] {
  const size = Number(block.lastVersion - block.firstVersion) + 1
  return Array.from({ length: Math.min(size, maxTransactions) }, (_, index) => block.firstVersion + BigInt(index))
}

function blockJson (ledger: Ledger, block: Block, versions: readonly bigint[] | undefined): Buffer {
  const members = JSON.stringify(
    {
      block_height: String(block.height),
      block_hash: block.hash,
      block_timestamp: String(block.timestampUsec),
      first_version: String(block.firstVersion),
      last_version: String(block.lastVersion)
    }
  )
  const transactions = versions?.map(version => printTransaction(ledger, block, version))
  return Buffer.concat([
    Buffer.from(`${members.slice(0, -1)},"transactions":`),
    transactions === undefined ? Buffer.from('null') : joinItems(transactions),
    Buffer.from('}')
  ])
}

function blockBytes (ledger: Ledger, block: Block, versions: readonly bigint[] | undefined): Buffer {
  const hasOptionByte = ledger.blockBcs === 'option'
  return Buffer.concat([
    u64Bytes(block.height),
    Buffer.from(block.hash.slice(2), 'hex'),
    u64Bytes(block.timestampUsec),
    u64Bytes(block.firstVersion),
    u64Bytes(block.lastVersion),
    Buffer.from(hasOptionByte ? [versions === undefined ? 0 : 1] : []),
    ...versions === undefined
      ? []
      : [lengthBytes(versions.length), ...versions.map(version => transactionBytes(ledger, version))]
  ])
}
