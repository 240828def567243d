import { shortAddress } from './address.js'
import { integerBytes, lengthBytes, u64Bytes, sequenceBytes, variant } from './bcs.js'
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
import { invalidInput, notFound, Problem, versionPruned } from './problem.js'
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
  if (version > position.version) throw notFound('transaction_not_found', 'Transaction', `Ledger version(${version})`)
  if (version < position.oldestVersion) throw versionPruned(version)
  return committedResponse(context, format, version)
}

/** Reads a committed or pending transaction by its hash. */
export function readTransactionByHash (context: RequestContext): SandboxResponse {
  const hash = readHashParam('txn_hash', pathParam(context, 0))
  const format = requestedFormat(context, 'Get transactions by hash')
  const found = findTransactionByHash(context.snapshot, hash)
  if (found === undefined) throw notFound('transaction_not_found', 'Transaction', `Transaction hash(${hash})`)
  if (typeof found === 'bigint') return committedResponse(context, format, found)
  const pending = variant(1, signedTransactionBytes(found, context.snapshot.ledger.chainId))
  return successResponse(context, format, format === 'json' ? JSON.stringify(found) : pending)
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

/** Lists the transactions of an account in a range of versions; without a start, the newest up to its end. */
export function readTransactionSummaries (context: RequestContext): SandboxResponse {
  const address = readAddressParam('address', pathParam(context, 0))
  const start = readU64Query(context.query, 'start_version')
  const end = readU64Query(context.query, 'end_version')
  const limit = readLimitQuery(context.query)
  const format = requestedFormat(context, 'Get account transaction summaries')
  const { snapshot: { ledger, position }, settings: { transactionsMax } } = context
  requireAccount(context, address, position.version)
  const all = versionsFrom(0n, nextSequenceAt(ledger, address, position.version) - 1n)
    .map(sequence => ({ sequence, version: versionOfSend(ledger, address, sequence) }))
    .filter(({ version }) =>
      version >= position.oldestVersion && version >= (start ?? 0n) && version <= (end ?? version)
    )
  const size = pageSize(limit, transactionsMax, transactionsMax)
  const items = (start === undefined ? all.slice(-size) : all.slice(0, size)).map(({ sequence, version }) => {
    const hash = transactionHash(ledger, version)
    return format === 'bcs'
      ? Buffer.from(
        `${address}${u64Bytes(version).toString('hex')}${hash.slice(2)}01${u64Bytes(sequence).toString('hex')}`,
        'hex'
      )
      : Buffer.from(JSON.stringify({
        sender: shortAddress(address),
        version: String(version),
        transaction_hash: hash,
        replay_protector: { SequenceNumber: String(sequence) }
      }))
  })
  return successResponse(context, format, format === 'json' ? joinItems(items) : sequenceBytes(items))
}

/** Lists what nodes store beside transactions: their places in their blocks. */
export function readAuxiliaryInfo (context: RequestContext): SandboxResponse {
  const start = readU64Query(context.query, 'start_version') ?? 0n
  const limit = readLimitQuery(context.query)
  const format = requestedFormat(context, 'Get transactions auxiliary info')
  const { snapshot: { ledger, position }, settings: { transactionsDefault, transactionsMax } } = context
  const end = start + BigInt(pageSize(limit, transactionsDefault, transactionsMax)) - 1n
  requireVersion(context.snapshot, start)
  const versions = versionsFrom(start, end < position.version ? end : position.version)
  const places = versions.map(version => version - ledger.blockOf(version).firstVersion)
  const body = format === 'json'
    ? JSON.stringify(places.map(place => ({ transaction_index: Number(place), type: 'v1' })))
    : sequenceBytes(places.map(place => variant(1, integerBytes(place, 4))))
  return successResponse(context, format, body)
}

function transactionsResponse (
  context: RequestContext,
  format: 'json' | 'bcs',
  versions: readonly bigint[],
  fault?: TailFault
): SandboxResponse {
  const items = pageItems(context.snapshot.ledger, versions, format, fault)
  return successResponse(context, format, format === 'json' ? joinItems(items) : sequenceBytes(items))
}

function versionsFrom (first: bigint, last: bigint): bigint[] {
  return last < first ? [] : Array.from({ length: Number(last - first) + 1 }, (_, index) => first + BigInt(index))
}

// A single transaction in BCS starts with a variant byte: 0 committed, 1 pending.
function committedResponse (context: RequestContext, format: 'json' | 'bcs', version: bigint): SandboxResponse {
  const { ledger } = context.snapshot
  const body = format === 'json'
    ? printTransaction(ledger, ledger.blockOf(version), version)
    : variant(0, transactionBytes(ledger, version))
  return successResponse(context, format, body)
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
    const [above, below] = [requestedHeight > position.blockHeight, requestedHeight < position.oldestBlockHeight]
    if (above) throw notFound('block_not_found', 'Block', `Block height(${requestedHeight})`)
    if (below) throw new Problem('ledger', 'block_pruned', `Block(${requestedHeight}) has been pruned`)
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
  const print = format === 'json' ? blockJson : blockBytes
  return successResponse(context, format, print(ledger, block, versions))
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
