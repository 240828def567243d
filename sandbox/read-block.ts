import { lengthBytes, u64Bytes } from './bcs.js'
import { type Block, type Ledger } from './ledger.js'
import { flagQuery, plainU64Param } from './params.js'
import { blockNotFound, blockPruned } from './problem.js'
import { formOf, paramOf, type Question, readableVersion, success, type View } from './question.js'
import { type Reply } from './reply.js'
import { type BlockRecord } from './schema/block.js'
import { transactionBytes, transactionRecord } from './transactions.js'

/** Fetches the block that holds a version. */
export function readBlockByVersion (question: Question): Reply {
  const asked = plainU64Param('version', paramOf(question, 0))
  return readBlock(
    question,
    'Get block by version',
    ({ ledger }) => ledger.blockOf(readableVersion(question.view, asked))
  )
}

/** Fetches the block of a height. */
export function readBlockByHeight (question: Question): Reply {
  const asked = plainU64Param('block_height', paramOf(question, 0))
  return readBlock(question, 'Get block by height', ({ ledger, position }) => {
    if (asked > position.blockHeight) throw blockNotFound(asked)
    if (asked < position.oldestBlockHeight) throw blockPruned(asked)
    return ledger.block(asked)
  })
}

function readBlock (question: Question, operation: string, find: (view: View) => Block): Reply {
  const withTransactions = flagQuery(question.query, 'with_transactions')
  const form = formOf(question, operation)
  const { ledger } = question.view
  const block = find(question.view)
  const versions = withTransactions ? versionsOf(block, question.settings.blockTransactionsMax) : undefined
  return success(
    question,
    form,
    form === 'json' ? blockJson(ledger, block, versions) : blockBytes(ledger, block, versions)
  )
}

// Cut without a word: that there is more shows only in the range of the block.
function versionsOf (block: Block, most: number): bigint[] {
  const size = Number(block.lastVersion - block.firstVersion) + 1
  return Array.from({ length: Math.min(size, most) }, (_, index) => block.firstVersion + BigInt(index))
}

function blockJson (ledger: Ledger, block: Block, versions: readonly bigint[] | undefined): string {
  return JSON.stringify(
    {
      block_height: String(block.height),
      block_hash: block.hash,
      block_timestamp: String(block.timestampUsec),
      first_version: String(block.firstVersion),
      last_version: String(block.lastVersion),
      transactions: versions?.map(version => transactionRecord(ledger, block, version)) ?? null
    } satisfies BlockRecord
  )
}

function blockBytes (ledger: Ledger, block: Block, versions: readonly bigint[] | undefined): Buffer {
  const marked = ledger.blockBcs === 'option'
  return Buffer.concat([
    u64Bytes(block.height),
    Buffer.from(block.hash.slice(2), 'hex'),
    u64Bytes(block.timestampUsec),
    u64Bytes(block.firstVersion),
    u64Bytes(block.lastVersion),
    Buffer.from(marked ? [versions === undefined ? 0 : 1] : []),
    ...versions === undefined
      ? []
      : [lengthBytes(versions.length), ...versions.map(version => transactionBytes(ledger, version))]
  ])
}
