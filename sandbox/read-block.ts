import { lengthBytes, u64Bytes } from './bcs.js'
import { type Block, type Ledger } from './ledger.js'
import { joinItems } from './json-printer.js'
import { readFlagQuery, readOnceDecodedU64Param } from './params.js'
import { blockNotFound, blockPruned } from './problem.js'
import {
  requestedFormat,
  pathParam,
  type RequestContext,
  requireVersion,
  successResponse,
  type LedgerSnapshot
} from './request-context.js'
import { type SandboxResponse } from './make-response.js'
import { printTransaction, transactionBytes } from './transactions.js'

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
