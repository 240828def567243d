import { lengthBytes, u64Bytes } from './bcs.js'
import { type Block, type Ledger } from './ledger.js'
import { flagQuery, plainU64Param } from './params.js'
import { formOf, paramOf, type Question, readableVersion, success } from './question.js'
import { type Reply } from './reply.js'
import { transactionBytes, transactionRecord } from './transactions.js'

/** Fetches the block that holds a version. */
export function readBlock (question: Question): Reply {
  const asked = plainU64Param('version', paramOf(question, 0))
  const withTransactions = flagQuery(question.query, 'with_transactions')
  const form = formOf(question, 'Get block by version')
  const { ledger } = question.view
  const block = ledger.blockOf(readableVersion(question.view, asked))
  const versions = withTransactions ? versionsOf(block, question.settings.blockTransactionsMax) : undefined
  return success(question, form, form === 'json' ? blockJson(ledger, block, versions) : blockBytes(ledger, block, versions))
}

// Cut without a word: that there is more shows only in the range of the block.
function versionsOf (block: Block, most: number): bigint[] {
  const size = Number(block.lastVersion - block.firstVersion) + 1
  return Array.from({ length: Math.min(size, most) }, (_, index) => block.firstVersion + BigInt(index))
}

function blockJson (ledger: Ledger, block: Block, versions: readonly bigint[] | undefined): string {
  return JSON.stringify({
    block_height: String(block.height),
    block_hash: block.hash,
    block_timestamp: String(block.timestampUsec),
    first_version: String(block.firstVersion),
    last_version: String(block.lastVersion),
    transactions: versions?.map(version => transactionRecord(ledger, block, version)) ?? null
  })
}

function blockBytes (ledger: Ledger, block: Block, versions: readonly bigint[] | undefined): Buffer {
  const marked = ledger.blockBcs === 'option'
  return Buffer.concat([
    u64Bytes(block.height), Buffer.from(block.hash.slice(2), 'hex'), u64Bytes(block.timestampUsec),
    u64Bytes(block.firstVersion), u64Bytes(block.lastVersion),
    Buffer.from(marked ? [versions === undefined ? 0 : 1] : []),
    ...versions === undefined ? [] : [lengthBytes(versions.length), ...versions.map(version => transactionBytes(ledger, version))]
  ])
}
